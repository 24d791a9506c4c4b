package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

func TestALineThatIsNoTaskIsReportedInTheWordsOfTheFile(t *testing.T) {
	for text, want := range map[string]string{
		`{"priority": "high"}`:     "no task: priority is a string; want a number from 0 (sooner) to 9 (later)",
		`{"priority": -1}`:         "no task: priority is -1; want a number from 0 (sooner) to 9 (later)",
		`{"type": 7}`:              "no task: type is a number; want text",
		`{"headers": {"a": 1}}`:    "no task: headers is a number; want an object with strings as values",
		`{"headers": ["a"]}`:       "no task: headers is an array; want an object with strings as values",
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

func TestAnArgumentThatIsMissingIsNamed(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"task get", "want an ID, or --type and --key"},
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
		if r := cli(t, nil, "", strings.Fields(c.args)...); r.code != exit.Usage || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s ends with %d: %s", c.args, r.code, r.stderr)
		}
	}
}

func TestKeysOfAFileAreNeverMerged(t *testing.T) {
	for text, want := range map[string]string{
		"{\"type\":\"a\",\"key\":\"k\xff\"}":      "not UTF-8, from byte 21 on",
		"\xff\xfe{\x00\"\x00":                     "save the file as UTF-8", // UTF-16
		"\x00{\x00}":                              "save the file as UTF-8",
		"{\"type\":\"a\",\"key\":\"k\x00\"}":      "the byte zero",
		"{\"type\":\"a\",\"data\":\"\xc3\"}":      "not UTF-8",
		`{"type":"a","key":"\ud800"}`:             "half of a character",
		`{"type":"a","headers":{"h":"\udc00x"}}`:  "half of a character",
		`{"type":"a\udfff","key":"\ud83d\ude00"}`: "half of a character",
	} {
		if _, err := parseLine([]byte(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for text, key := range map[string]string{
		`{"type":"a","key":"\ud83d\ude00"}`:       "\U0001F600",
		`{"type":"a","key":"\ufffd\ud83d\ude00"}`: "\uFFFD\U0001F600",
		"{\"type\":\"a\",\"key\":\"\uFFFD\"}":     "\uFFFD",
		`{"type":"a","data":"\ud800"}`:            "",
	} {
		if got, err := parseLine([]byte(text), ""); err != nil || got.GetKey() != key {
			t.Errorf("%q gives the key %q, %v", text, got.GetKey(), err)
		}
	}
	if r := cli(t, nil, "", "task", "add", "a", "--key", "k\xff"); r.code != exit.Usage || !strings.Contains(r.stderr, "not UTF-8") {
		t.Errorf("a key that is not UTF-8 ends with %d: %s", r.code, r.stderr)
	}
}

func TestALineThatIsTooLongDoesNotEndTheLoading(t *testing.T) {
	const longest = 100_000
	line := func(size int) string {
		return `{"type":"a","data":"` + strings.Repeat("x", size-len(`{"type":"a","data":""}`)) + `"}`
	}
	longestOne := line(longest - 1) // and its newline
	text := strings.Join([]string{`{"type":"a"}`, longestOne, line(longest), "", line(longest * 10), `{"type":"b"}`, line(longest + 1)}, "\n")
	l := &loader{app: &app{ids: fromOS().ids}, name: "f", longest: longest}
	for name, input := range map[string]io.Reader{"at once": strings.NewReader(text), "a byte at a time": iotest.OneByteReader(strings.NewReader(text))} {
		out := make(chan batch, 100)
		if err := l.read(t.Context(), input, out); err != nil {
			t.Fatal(err)
		}
		close(out)
		var good, bad []int
		var size int64
		for b := range out {
			size += b.bytes
			for _, t := range b.tasks {
				good = append(good, t.line)
			}
			for _, b := range b.bad {
				bad = append(bad, b.line)
				if !strings.Contains(b.err.Error(), "of 100000 allowed") {
					t.Errorf("line %d is refused by %v", b.line, b.err)
				}
			}
		}
		if diff := cmp.Diff([][]int{{1, 2, 6}, {3, 5, 7}}, [][]int{good, bad}); diff != "" || size != int64(len(text)) {
			t.Errorf("%s, %d bytes of %d, the lines are (-want +got) %s", name, size, len(text), diff)
		}
	}
	broken := io.MultiReader(strings.NewReader("{\"type\":\"a\"}\n{"), iotest.ErrReader(errors.New("the disk is gone")))
	out := make(chan batch, 100)
	if err := l.read(context.Background(), broken, out); err == nil || !strings.Contains(err.Error(), "f:2: the disk is gone") || len((<-out).tasks) != 1 {
		t.Errorf("a file that breaks off ends with %v", err)
	}
}
