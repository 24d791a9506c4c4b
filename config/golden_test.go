package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	records "github.com/taskengine/taskengine/kafka/source"
)

var update = flag.Bool("update", false, "write the expected files anew")

// environment of the tests: one variable.
func testEnv(name string) (string, bool) {
	if name == "SECRET" {
		return "hunter2", true
	}
	return "", false
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	return found
}

func sentence(path string) string {
	return strings.ReplaceAll(strings.TrimSuffix(filepath.Base(path), ".yaml"), "_", " ")
}

// golden compares got with the file, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not what comes out (-file +now); if it should be, run the test with -update\n%s", path, diff)
	}
}

func TestWrongFilesAreRefusedWithAllTheirProblems(t *testing.T) {
	for _, path := range files(t, "wrong/*.yaml") {
		t.Run(sentence(path), func(t *testing.T) {
			_, err := Load(path, nil, testEnv)
			var problems *Errors
			if !errors.As(err, &problems) || len(problems.Problems) == 0 {
				t.Fatalf("Load returned %v, want problems", err)
			}
			detail := problems.Detail()
			if strings.Contains(detail, "hunter2") {
				t.Error("a secret is shown")
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".errors", []byte(detail))
		})
	}
}

// alike are the options by which the tests compare configurations.
var alike = cmp.Options{
	cmpopts.IgnoreUnexported(Config{}), cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b records.Start) bool { return a == b }),
}

func TestValidFilesGiveTheSameConfigurationAgainWhenDumped(t *testing.T) {
	env := func(string) (string, bool) { return "value", true }
	for _, path := range files(t, "valid/*.yaml") {
		t.Run(sentence(path), func(t *testing.T) {
			c, err := Load(path, nil, env)
			if err != nil {
				t.Fatal(err)
			}
			src := &source{name: "dump", text: c.String()}
			again, err := load(src, filepath.Dir(path), nil, env)
			if err != nil {
				t.Fatalf("%v\n%s", err, c)
			}
			if diff := cmp.Diff(c, again, alike); diff != "" {
				t.Errorf("(-file +dump)\n%s", diff)
			}
			third, err := load(&source{name: "dump", text: again.String()}, filepath.Dir(path), nil, env)
			if err != nil || third.String() != again.String() {
				t.Errorf("a dump of the dump differs (%v):\n%s\n%s", err, again, third)
			}
		})
	}
}
