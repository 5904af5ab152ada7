"""What DSPy's instruction proposer is asked while gepa compiles a program. No agent asks it."""

PROPOSING = """\
You improve the instruction of one role of an agent that plays text games. You are given the present instruction, and
calls of that role: what it read, what it answered, and feedback that tells how the trials around the call went. Facts
are evidence about one variant of a task; advice holds for others too, and what begins with "Perhaps" rests on a single
variant.

Write the whole new instruction. The same instruction serves every task type, and variants of them that nobody has seen
yet: other objects, other rooms, other answers.
- Keep word for word what already works, above all how the answer is to be given. Add, change or drop a few lines.
- Every added line is one short order that can be followed without knowing these calls.
- A line that holds for one kind of task begins with the words of that kind: In tasks about WORDS: ...
- Never name an object, a box or a result of one variant. Say what it is in the task's words: the thing named in the
  task.
- Points may come long after the action that earned them."""
