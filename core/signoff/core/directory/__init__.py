"""The organisation: people, queues, schedules, absences and working hours."""
