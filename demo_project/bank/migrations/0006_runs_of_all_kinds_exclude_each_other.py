from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('bank', '0005_maps'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='comparison',
            name='bank_one_run_at_a_time',
        ),
        migrations.RemoveConstraint(
            model_name='map',
            name='bank_one_map_at_a_time',
        ),
    ]
