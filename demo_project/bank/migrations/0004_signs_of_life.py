import django.utils.timezone
from django.db import migrations, models

import demo_project.bank.liveness


def end_runs(apps, _schema_editor):  # type: ignore[no-untyped-def]
    """Runs of earlier versions gave no sign of life, and several may claim to run."""
    runs = apps.get_model("bank", "Comparison").objects.filter(status="running")
    runs.update(status="interrupted", finished=django.utils.timezone.now())


class Migration(migrations.Migration):

    dependencies = [
        ('bank', '0003_table_of_the_book'),
    ]

    operations = [
        migrations.RunPython(end_runs, migrations.RunPython.noop),
        migrations.AddField(
            model_name='comparison',
            name='process',
            field=models.CharField(default=demo_project.bank.liveness.this_process, max_length=300),
        ),
        migrations.AddField(
            model_name='comparison',
            name='seen',
            field=models.DateTimeField(default=django.utils.timezone.now, null=True),
        ),
        migrations.AddConstraint(
            model_name='comparison',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'running')), fields=('status',), name='bank_one_run_at_a_time'),
        ),
        migrations.CreateModel(
            name='Demo',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('process', models.CharField(default=demo_project.bank.liveness.this_process, max_length=300)),
                ('seen', models.DateTimeField(default=django.utils.timezone.now, null=True)),
                ('site', models.CharField(blank=True, max_length=200)),
            ],
            options={
                'abstract': False,
            },
        ),
    ]
