from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('bank', '0006_runs_of_all_kinds_exclude_each_other'),
    ]

    operations = [
        migrations.DeleteModel(name='MapMeasurement'),
        migrations.DeleteModel(name='Map'),
    ]
