"""The memory loop for coding agents: what went wrong in a shell is captured, recalled, verified, promoted.

    capture     a command failed: its trigger becomes an entry, or counts one up          capture.py
    propose     the next success of that command says what helped                         successes.py
    recall      at the prompt, and before the command that failed before                  recall.py
    verify      what followed a recall moves the entry's confidence                       confidence.py
    promote     three occurrences and a known resolution become a rule, as a diff         promote.py

Entries are JSON files in `.reflexion/entries/`, one each, to be read and edited by hand. Everything else (index, what
a session has run, the log) is in the user's own folder and can be deleted. Hosts call the script `reflexion` at their
hooks (hosts/ has one file a host); people call `rsso-dspy coding` and `rsso-dspy hooks`. Nothing in here imports
dspy, torch or numpy, and what a hook needs is imported where it is needed: hosts wait for it.
"""
