"""Commands about people: absences, queues, sign-in to the page, API tokens."""
