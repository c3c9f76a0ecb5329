"""Runs training steps of Hugging Face classes on the meta device with exported lines in place of a named strategy, and prints the
peaks of the second step.

    run_lines.py MEASURE_FOLDER CASES.json    (cases of measure.py, each with its "lines")
"""
import json
import sys

folder, cases = sys.argv[1:]
sys.path.insert(0, folder)
import measure  # noqa: E402


def apply_lines(model, case):
    space = {"model": model}
    exec(compile(case["lines"], case["id"], "exec"), space)
    if "apply" in space:
        space["apply"](model)
    return 0


measure.apply_strategy = apply_lines
measure.layers_of = lambda model: []
results = {}
for case in json.load(open(cases)):
    try:
        result = measure.run(case)
        results[case["id"]] = {"before": result["before_backward_2"], **{k[2:]: v["bytes"] for k, v in result["peaks"].items() if k[0] == "2"}}
    except Exception as e:
        results[case["id"]] = {"error": f"{type(e).__name__}: {e}"}
print(json.dumps(results))
