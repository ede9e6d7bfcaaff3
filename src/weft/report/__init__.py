"""What a person reads: the text report and the interactive one."""
