package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestALineThatIsNoTaskIsToldInTheWordsOfTheFile(t *testing.T) {
	for text, want := range map[string]string{
		`{"priority": "high"}`:     "no task: priority is a string; want a number from 0 (sooner) to 9 (later)",
		`{"priority": -1}`:         "no task: priority is -1; want a number from 0 (sooner) to 9 (later)",
		`{"type": 7}`:              "no task: type is a number; want text",
		`{"headers": {"a": 1}}`:    "no task: headers is a number; want an object whose values are text",
		`{"headers": ["a"]}`:       "no task: headers is an array; want an object whose values are text",
		`{"in": 90}`:               `no task: in is a number; want a duration, such as "90s"`,
		`{"at": 1700000000}`:       `no task: at is a number; want a time, such as "2026-12-24T18:00:00Z"`,
		`{"expires_at": []}`:       `no task: expires_at is an array; want a time, such as "2026-12-24T18:00:00Z"`,
		`{"payload_base64": 1}`:    "no task: payload_base64 is a number; want bytes in base64",
		`{"payload_base64": "€"}`:  "no task: payload_base64 is not base64: illegal base64 data at input byte 0",
		`["mail"]`:                 `no task: it is an array; want an object, such as {"type": "mail"}`,
		`"mail"`:                   `no task: it is a string; want an object, such as {"type": "mail"}`,
		`{"type": "mail"} {}`:      "no task: something follows the JSON object",
		`{"typ": "mail"}`:          `no task: unknown field "typ"`,
		`{"type": "mail"`:          "no task: unexpected EOF",
		`{"in": "a while"}`:        `no task: "a while" is no duration such as 90s, 1.5h or 2d12h`,
		`{"data": 1, "id": [1,2]}`: "no task: id is an array; want text",
	} {
		if _, err := parseLine([]byte(text), "mail"); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestWhatANodeRefusesIsToldWithoutTheWayItTook(t *testing.T) {
	n := start(t, nil, "dev")
	const gone = "0190a3b0-0000-7000-8000-000000000001"
	for _, args := range [][]string{{"get"}, {"cancel"}, {"resume"}, {"fail"}, {"reschedule", "--in", "1s"}, {"why"}, {"logs"}} {
		r := n.cli(t, append(append([]string{"task"}, args...), gone)...)
		if want := fmt.Sprintf("taskengine: task %s not found: it was never added, or has ended and is not kept any more\n", gone); r.code != exitNotFound || r.stderr != want {
			t.Errorf("%v of a task that is not there ends with %d: %s", args, r.code, r.stderr)
		}
	}
	big := write(t, "big", string(bytes.Repeat([]byte("x"), 40<<20)))
	if r := n.cli(t, "task", "add", "echo", "--data", "@"+big); r.code != exitUsage || !strings.Contains(r.stderr, "the request is too large for the node: message size 4") || !strings.Contains(r.stderr, "max_payload") {
		t.Errorf("40 MiB of data end with %d: %s", r.code, r.stderr)
	}
}

func TestAnArgumentThatIsMissingIsNamed(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"task get", "ID is missing; want taskengine task get ID"},
		{"task cancel", "ID is missing; want taskengine task cancel ID"},
		{"doctor", "STORE is missing; want taskengine doctor STORE"},
		{"backup --from bolt:a", "FOLDER is missing; want taskengine backup FOLDER --from STORE"},
		{"shards move --from a --to b", "SHARDS is missing"},
		{"bench compare a.json", "B.json is missing"},
		{"bench run", "SCENARIO is missing"},
		{"handler new --lang go", "NAME is missing"},
		{"handler verify", "COMMAND is missing"},
		{"type pause mail copy", `"copy" is one argument too many; want taskengine type pause TYPE`},
		{"migrate plan now", `"now" is one argument too many; want taskengine migrate plan`},
		{"task add", "want a TYPE, or --file"},
	} {
		if r := cli(t, nil, "", strings.Fields(c.args)...); r.code != exitUsage || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s ends with %d: %s", c.args, r.code, r.stderr)
		}
	}
}
