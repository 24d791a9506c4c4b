//go:build !race

package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestMistakesInConditionsAreNamedWithTheirColumn(t *testing.T) {
	for _, c := range []struct{ condition, want string }{
		{" ", "the condition is empty"},
		{"$input.a == ", "column 13: a value is missing at the end"},
		{"$input.a and", "column 13: a value is missing at the end"},
		{"$input.a && $input.b", "column 10: write and in place of &&"},
		{"$input.a || $input.b", "column 10: write or in place of ||"},
		{"!$input.a", "column 1: write not in place of !"},
		{"$input.a = 1", "column 10: write == in place of ="},
		{"== 1", "column 1: == has no value before it"},
		{"1 < $input.a < 3", "column 14: < has no value before it, or follows a comparison: compare two values, and join comparisons by and"},
		{"($input.a or $input.b", "column 22: ) is missing: the ( of column 1 is open"},
		{"$input.a)", "column 9: ) cannot be here"},
		{"$input.a $input.b", "column 10: $input.b cannot be here: conditions are joined by and, or"},
		{"$input.a == 'yes", "column 13: the text does not end: ' is missing"},
		{"'ü' == input.a", "column 8: input.a is no value: did you mean $input.a?"},
		{"$input.a == yes", "column 13: yes is no value: a text is in quotes, and a reference begins with $"},
		{"$input.a == 01", "column 13: 01 is no value"},
		{"$input.a == 1e99999999999", "column 13: 1e99999999999 is too large"},
		{"$reslt.a.b > 1", "column 1: a condition has no reference $reslt, did you mean $result?"},
		{"$item.a", "column 1: a condition has no reference $item; there are $input, $result and $step"},
		{"$step.a.stat == 'done'", "column 1: $step.a.stat: $step has state, error, count, done, failed, cancelled of a step, such as $step.charge.state, did you mean state?"},
		{"$step.a == 'done'", "column 1: $step.a: $step has"},
		{"$step.a.state == 'skiped'", `column 18: the state of a step that has ended is one of done, failed, skipped, and not 'skiped', did you mean skipped?`},
		{"$input.a < true", "column 12: < compares numbers or texts, and true is none"},
		{"3", "column 1: 3 is no condition: compare it with a reference"},
		{"$input.a and 'x'", "column 14: 'x' is no condition"},
		{strings.Repeat("not ", 200) + "$input.a", "column 401: more than 100 conditions are within each other"},
		{strings.Repeat("(", 200), "column 101: more than 100 conditions are within each other"},
		{strings.Repeat(" ", 5000), "the condition has 5000 bytes, of 4096 allowed"},
		{"$input.a == '\xff'", "the condition is not UTF-8 text"},
	} {
		if _, err := parseCondition(c.condition); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.100s\n gives %v\nwant %s", c.condition, err, c.want)
		}
	}
}

// facts are the values that the conditions of the tests refer to.
const facts = `{
	"$input": {"yes": true, "no": false, "null": null, "n": 3, "big": 12345678901234567890, "text": "b", "list": [1, "x"], "of": {"a-b": {"c": 0.80}}},
	"$result": {"score": 0.9},
	"$step": {"state": "done", "count": 2, "failed": 0}
}`

func factsLookup(kind, name string) (any, error) {
	all, err := parseValue([]byte(facts))
	if name == "skipped" {
		return absent{}, err
	}
	if name == "away" {
		return nil, errors.New("the store is away")
	}
	if of, isMap := all.(map[string]any); isMap && err == nil {
		v := of[kind]
		if kind == refStep {
			v.(map[string]any)["count"] = uint32(2) // as Next gives it
		}
		return v, nil
	}
	return nil, err
}

func TestConditionsHoldByTheValuesTheyReferTo(t *testing.T) {
	for condition, want := range map[string]string{
		"$input.yes":                                "true",
		"$input.no":                                 "false",
		"$input.null":                               "false",
		"$input.missing":                            "false",
		"not $input.missing":                        "true",
		"true":                                      "true",
		"$input.n == 3.0":                           "true",
		"$input.n == '3'":                           "false",
		"$input.n != '3'":                           "true",
		"3 <= $input.n":                             "true",
		"$input.n<3":                                "false",
		"$input.n > -1e3":                           "true",
		"$input.n < 1e1000000":                      "true",
		"$input.big == 12345678901234567890":        "true",
		"$input.big == 12345678901234567891":        "false",
		"$input.of.a-b.c == 0.8":                    "true",
		"$input.text > 'a'":                         "true",
		`$input.text >= "c"`:                        "false",
		"$input.list.1 == 'x'":                      "true",
		"$input.list.2 == null":                     "true",
		"$input.text.part == null":                  "true",
		"$input.list != null":                       "true",
		"$input.of == null":                         "false",
		"$input == null":                            "false",
		"$result.check.score >= 0.8 and $input.yes": "true",
		"$result.skipped.score == null":             "true",
		"$result.skipped":                           "false",
		"$step.check.state == 'done'":               "true",
		"$step.check.count == 2":                    "true",
		"$step.check.failed > 0":                    "false",
		"$input.yes or $result.away.x > 1":          "true",
		"$input.no and $result.away.x > 1":          "false",
		"$input.no and $input.yes or $input.yes":    "true",
		"$input.no and ($input.yes or $input.yes)":  "false",
		"not ($input.no or $input.no)":              "true",
		"not $input.n == 4 and $input.yes":          "true",
		"$result.away.x > 1":                        "column 1: the store is away",
		"$input.missing >= 0.8":                     "column 1: $input.missing is null, and >= compares numbers or texts",
		"$input.n > 'a'":                            `column 10: > compares the number 3 with the text "a": compare two numbers or two texts`,
		"$input.yes < 1":                            "column 1: $input.yes is true, and < compares numbers or texts",
		"$input.n or true":                          "column 1: $input.n is the number 3, and neither true nor false: compare it",
		"$input.list":                               "column 1: $input.list is a list, and neither true nor false",
		"$input.list == $input.of":                  "column 13: a list cannot be compared, but with null",
		"$input.of == 1":                            "column 11: an object cannot be compared, but with null",
	} {
		c, err := parseCondition(condition)
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		is, err := c.holds(factsLookup)
		got := fmt.Sprint(is)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s\n is %s\nwant %s", condition, got, want)
		}
	}
}

// randomCondition returns a condition and its value.
func randomCondition(r *rand.Rand, depth int) (text string, is bool) {
	if depth == 0 {
		a, b := r.IntN(4), r.IntN(4)
		i := r.IntN(len(comparisons))
		is := []bool{a == b, a != b, a < b, a <= b, a > b, a >= b}[i]
		if r.IntN(2) == 0 {
			return fmt.Sprintf("$input.%d %s %d", a, comparisons[i], b), is
		}
		return fmt.Sprintf("'%c'%s$result.a.%d.text", 'a'+a, comparisons[i], b), is
	}
	left, isLeft := randomCondition(r, depth-1)
	right, isRight := randomCondition(r, r.IntN(depth))
	switch r.IntN(4) {
	case 0:
		return "not (" + left + ")", !isLeft
	case 1:
		return "(" + left + ") and (" + right + ")", isLeft && isRight
	case 2:
		return "(" + left + " )or( " + right + ")", isLeft || isRight
	}
	return left, isLeft
}

// The words bind as in other languages: not before and, and before or. Parentheses change nothing else.
func TestConditionsAreReadAsTheyAreWritten(t *testing.T) {
	find := func(kind, _ string) (any, error) {
		if kind == refInput {
			return parseValue([]byte("[0, 1, 2, 3]"))
		}
		return parseValue([]byte(`[{"text": "a"}, {"text": "b"}, {"text": "c"}, {"text": "d"}]`))
	}
	for range 2000 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 1))
		text, want := randomCondition(r, r.IntN(6))
		if c, err := parseCondition(text); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		} else if is, err := c.holds(find); is != want || err != nil {
			t.Fatalf("seed %d: %s is %v (%v), want %v", seed, text, is, err, want)
		}
	}
	words := []string{"true", "false"}
	for n := range 3 * 3 * 3 * 16 { // three words of not, and, or around four values
		join := []string{"and", "or", "and not"}
		v := func(i int) string { return words[n>>i&1] }
		text := fmt.Sprintf("%s %s %s %s %s %s %s", v(0), join[n/16%3], v(1), join[n/48%3], v(2), join[n/144%3], v(3))
		want := false
		for _, part := range strings.Split(text, " or ") {
			all := true
			for _, one := range strings.Split(part, " and ") {
				all = all && (one == "true" || one == "not false")
			}
			want = want || all
		}
		c, err := parseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		if is, err := c.holds(find); is != want || err != nil {
			t.Errorf("%s is %v (%v), want %v", text, is, err, want)
		}
	}
}

// FuzzCondition checks that no condition and no values make the evaluation panic or take long.
func FuzzCondition(f *testing.F) {
	f.Add("$input.a >= 0.8 and not ($result.b.c == 'x' or $step.d.failed > 0)", `{"a": 1}`)
	f.Add("$input == 1e400", "1e-400")
	f.Fuzz(func(t *testing.T, text, value string) {
		c, err := parseCondition(text)
		if err != nil || !json.Valid([]byte(value)) {
			return
		}
		v, err := parseValue([]byte(value))
		if err != nil {
			return
		}
		_, _ = c.holds(func(string, string) (any, error) { return v, nil })
	})
}
