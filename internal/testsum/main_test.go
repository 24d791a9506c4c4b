package main

import (
	"strings"
	"testing"
)

const stream = `# a/broken
{"Action":"build-output","ImportPath":"a/broken","Output":"x.go:1: syntax error\n"}
{"Action":"fail","Package":"a/broken","Elapsed":0}
{"Action":"run","Package":"a/bolt","Test":"TestStore"}
{"Action":"run","Package":"a/bolt","Test":"TestStore/one"}
{"Action":"output","Package":"a/bolt","Test":"TestStore/one","Output":"noise of one that passes\n"}
{"Action":"pass","Package":"a/bolt","Test":"TestStore/one"}
{"Action":"run","Package":"a/bolt","Test":"TestStore/two"}
{"Action":"output","Package":"a/bolt","Test":"TestStore/two","Output":"=== RUN   TestStore/two\n"}
{"Action":"output","Package":"a/bolt","Test":"TestStore/two","Output":"    x_test.go:7: needs a server\n"}
{"Action":"skip","Package":"a/bolt","Test":"TestStore/two"}
{"Action":"pass","Package":"a/bolt","Test":"TestStore"}
{"Action":"pass","Package":"a/bolt","Elapsed":1.5}
{"Action":"run","Package":"a/other","Test":"TestBad"}
{"Action":"output","Package":"a/other","Test":"TestBad","Output":"    y_test.go:9: it is wrong\n"}
{"Action":"fail","Package":"a/other","Test":"TestBad"}
{"Action":"fail","Package":"a/other","Elapsed":0.1}
`

func TestTheSummaryTellsWhatMatters(t *testing.T) {
	var parts partsFlag
	for _, p := range []string{"bolt=/bolt$", "bolt one=/bolt$:/one", "pebble=/pebble$"} {
		if err := parts.Set(p); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	s, err := read(strings.NewReader(stream), &out)
	if err != nil {
		t.Fatal(err)
	}
	if s.report(&out, parts, false) {
		t.Error("a run with failures passes for a good one")
	}
	for _, want := range []string{
		"# a/broken", "x.go:1: syntax error", "y_test.go:9: it is wrong",
		"a/bolt TestStore/two: x_test.go:7: needs a server",
		"  bolt                     1\n", "  bolt one                 1\n", "  pebble                   NOT EXERCISED\n",
		"a/broken did not build", "\n1 passed, 2 failed, 1 skipped\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "noise") {
		t.Error("the output has the lines of a test that passed")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestTheOutputOfAPackageThatFailedIsNeverSilent(t *testing.T) {
	const stream = `{"Action":"run","Package":"a/dies","Test":"TestRuns"}
{"Action":"output","Package":"a/dies","Test":"TestRuns","Output":"panic: in a goroutine\n"}
{"Action":"output","Package":"a/dies","Output":"exit status 2\n"}
{"Action":"fail","Package":"a/dies","Elapsed":1}
{"Action":"run","Package":"a/leaks","Test":"TestGood"}
{"Action":"pass","Package":"a/leaks","Test":"TestGood"}
{"Action":"output","Package":"a/leaks","Output":"goroutines are left\n"}
{"Action":"fail","Package":"a/leaks","Elapsed":1}
{"Action":"run","Package":"a/both","Test":"TestBad"}
{"Action":"output","Package":"a/both","Test":"TestBad","Output":"got 1, want 2\n"}
{"Action":"fail","Package":"a/both","Test":"TestBad"}
{"Action":"run","Package":"a/both","Test":"TestRunsToo"}
{"Action":"output","Package":"a/both","Test":"TestRunsToo","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"a/both","Output":"exit status 66\n"}
{"Action":"fail","Package":"a/both","Elapsed":1}
`
	var out strings.Builder
	s, err := read(strings.NewReader(stream), &out)
	if err != nil || s.report(&out, nil, false) {
		t.Errorf("a run with failures passes for a good one: %v", err)
	}
	for _, want := range []string{
		"a/dies TestRuns\npanic: in a goroutine\n", "a/dies \nexit status 2\n", "a/leaks \ngoroutines are left\n",
		"a/both TestBad\ngot 1, want 2\n", "a/both TestRunsToo\nWARNING: DATA RACE\n", "a/both \nexit status 66\n",
		"a/dies did not build, or ended by itself", "a/leaks did not build, or ended by itself",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestAStrictRunExercisesEveryPart(t *testing.T) {
	good := summary{passed: []test{{"a/bolt", "TestStore"}}}
	var parts partsFlag
	for i, p := range []string{"bolt=/bolt$", "pebble=/pebble$"} {
		if err := parts.Set(p); err != nil {
			t.Fatal(err)
		}
		for _, strict := range []bool{false, true} {
			if got, want := good.report(&strings.Builder{}, parts, strict), !strict || i == 0; got != want {
				t.Errorf("with %d parts and strict %v the run is good: %v", i+1, strict, got)
			}
		}
	}
}

func TestTheEndOfTheSummarySaysWhyTestsFailed(t *testing.T) {
	stream := `{"Action":"run","Package":"a","Test":"TestAll"}
{"Action":"run","Package":"a","Test":"TestAll/one"}
{"Action":"pass","Package":"a","Test":"TestAll/one"}
{"Action":"output","Package":"a","Test":"TestAll","Output":"it is wrong as a whole\n"}
{"Action":"fail","Package":"a","Test":"TestAll"}
{"Action":"run","Package":"a","Test":"TestLoud"}
{"Action":"output","Package":"a","Test":"TestLoud","Output":"first line\n"}
` + strings.Repeat(`{"Action":"output","Package":"a","Test":"TestLoud","Output":"`+strings.Repeat("x", 1000)+`\n"}`+"\n", 1000) + `{"Action":"fail","Package":"a","Test":"TestLoud"}
{"Action":"fail","Package":"a","Elapsed":1}
`
	s, err := read(strings.NewReader(stream), &strings.Builder{})
	var out strings.Builder
	if err != nil || s.report(&out, nil, false) {
		t.Errorf("a run with failures passes for a good one: %v", err)
	}
	for _, want := range []string{"  a TestAll\n    it is wrong as a whole\n", "  a TestLoud\n    first line\n    xxx", "1 passed, 2 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q", want)
		}
	}
	if out.Len() > 30_000 {
		t.Errorf("the summary has %d bytes", out.Len())
	}
}

func TestNoTestAtAllIsAFailure(t *testing.T) {
	var out strings.Builder
	s, err := read(strings.NewReader(""), &out)
	if err != nil || s.report(&out, nil, false) {
		t.Errorf("an empty run passes for a good one: %v\n%s", err, &out)
	}
}

func TestABadPartIsRefused(t *testing.T) {
	var parts partsFlag
	for _, bad := range []string{"", "name", "name=(", "name=a:("} {
		if err := parts.Set(bad); err == nil {
			t.Errorf("the part %q was taken", bad)
		}
	}
}
