"""What `manage.py` gains."""
