"""What people see of a recording: HTML, text and JSON, made from one `Analysis`."""
