"""Prints what `kiln compile --requests FILE --json` answered as a table; for deploy/quickstart.

    answers_table.py REQUESTS.jsonl ANSWERS.jsonl
"""

import collections
import json
import sys


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def main():
    requests, answers = read(sys.argv[1]), read(sys.argv[2])
    # The last line is a summary: it answers no request.
    by_name = {answer["name"]: answer for answer in answers if "name" in answer and "outcome" in answer}
    rows = [("kernel", "target", "outcome", "ms", "bytes", "key")]
    for request in requests:
        target = request["target"]
        answer = by_name[request["name"]]
        rows.append((
            request["name"].removesuffix("-" + target.replace(":", "-")),
            target,
            answer["outcome"],
            f"{answer['ms']:.1f}",
            str(answer["bytes"]),
            (answer["key"] or "-")[:12],
        ))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(
            cell.rjust(width) if column in (3, 4) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip())
    counts = collections.Counter(row[2] for row in rows[1:])
    print(", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items())))
    print("ms: of what was compiled, the compiler's; otherwise until the answer was here, all requests having been sent together")
    for answer in answers:
        if answer.get("outcome") == "failed":
            print(f"{answer['name']}: {answer['error']}", file=sys.stderr)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
