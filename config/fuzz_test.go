//go:build !race

package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzLoad checks that Load returns, for any text, a configuration that the engine accepts and that can be
// written and read again, or problems that have a place.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/valid/*.yaml", "testdata/wrong/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(content), "node.slots=5")
		}
	}
	for _, set := range []string{"", "a", "a=", "=", `"a.b".c={d: e}`, `types."x"=*y`, "node=&a {<<: *a}", "types.a.retry.backoff=none"} {
		f.Add("types: {a: {handler: h}}\nhandlers: {h: {exec: [a]}}", set)
	}
	f.Fuzz(func(t *testing.T, text, set string) {
		var sets []string
		if set != "" {
			sets = []string{set}
		}
		env := func(string) (string, bool) { return "7", true }
		c, err := load(&source{name: "fuzz.yaml", text: text}, ".", sets, env)
		if err != nil {
			checkProblems(t, text, err)
			return
		}
		if problems := c.Policies().Check(); len(problems) > 0 {
			t.Fatalf("accepted in spite of %v", problems)
		}
		if strings.Contains(c.String(), mask) {
			return // secrets that are written out are not dumped
		}
		again, err := load(&source{name: "dump.yaml", text: c.String()}, ".", nil, env)
		if err != nil {
			t.Fatalf("the dump is refused: %v\n%s", err, c)
		}
		if c.Storage.URL.String() == again.Storage.URL.String() {
			again.Storage.URL = c.Storage.URL // its password is not dumped
		}
		for name, url := range c.Storage.Databases {
			if url.String() == again.Storage.Databases[name].String() {
				again.Storage.Databases[name] = url
			}
		}
		if diff := cmp.Diff(c, again, alike); diff != "" {
			t.Fatalf("the dump differs (-file +dump)\n%s\n%s", diff, c)
		}
	})
}

func checkProblems(t *testing.T, text string, err error) {
	var problems *Errors
	if !errors.As(err, &problems) || len(problems.Problems) == 0 || len(problems.Problems) > maxProblems+1 {
		t.Fatalf("got %v", err)
	}
	lines := strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\u0085") +
		strings.Count(text, "\u2028") + strings.Count(text, "\u2029") + 2
	for _, p := range problems.Problems {
		if p.Text == "" || p.File == "" || p.Line < 0 || p.Line > lines || (p.Line == 0) != (p.Column == 0) {
			t.Fatalf("problem without a place: %+v", p)
		}
	}
}

func TestFilesThatAreMadeToHurtAreDealtWithQuickly(t *testing.T) {
	var bomb, chain strings.Builder
	bomb.WriteString("handlers:\n  h: {exec: [h], env: &e {")
	for i := range 30_000 {
		fmt.Fprintf(&bomb, "V%d: a, ", i)
	}
	bomb.WriteString("Z: a}}\n")
	for i := range 15_000 {
		fmt.Fprintf(&bomb, "  h%d: {exec: [h], env: *e}\n", i)
	}
	chain.WriteString("limits:\n  a: &a0 {")
	for i := range 20_000 {
		fmt.Fprintf(&chain, "k%d: 1, ", i)
	}
	chain.WriteString("z: 1}\n")
	for i := range 20_000 {
		fmt.Fprintf(&chain, "  b%d: &a%d {<<: *a%d}\n", i, i+1, i)
	}
	tests := map[string]string{
		"a mapping that many aliases repeat": bomb.String(),
		"limits on top of each other":        tower(false),
		"limits in a large circle":           tower(true),
		"merges of merges":                   chain.String(),
		"brackets in brackets":               strings.Repeat("[", maxFile),
		"braces in braces":                   strings.Repeat("{a: ", maxFile/4),
		"dashes in dashes":                   strings.Repeat("- ", maxFile/2),
		"aliases in aliases":                 "a: &a [" + strings.Repeat("*a, ", maxFile/8) + "]",
		"one key over and over":              strings.Repeat("a: b\n", maxFile/5),
		"many unknown keys":                  manyKeys(maxFile / 12),
		"one long word":                      strings.Repeat("a", maxFile),
		"one long key":                       strings.Repeat("a", maxFile-8) + ": b",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if len(text) > maxFile {
				t.Fatalf("%d bytes are too many to be looked at", len(text))
			}
			_, err := load(&source{name: "hurt.yaml", text: text}, ".", nil, testEnv)
			var problems *Errors
			if !errors.As(err, &problems) {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(name, "many aliases") && !strings.Contains(err.Error(), "aliases repeat more than 1000000 values") {
				t.Errorf("got %v", err)
			}
			if n := len(problems.Detail()); n > 100_000 {
				t.Errorf("the problem is described in %d bytes", n)
			}
		})
	}
}

func tower(closed bool) string {
	var b strings.Builder
	const n = 40_000
	fmt.Fprintf(&b, "limits:\n  l0: {of: %q}\n", map[bool]string{true: fmt.Sprint("l", n-1), false: "nowhere"}[closed])
	for i := range n - 1 {
		fmt.Fprintf(&b, "  l%d: {of: l%d}\n", i+1, i)
	}
	return b.String()
}

func manyKeys(n int) string {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "k%07d: 1\n", i)
	}
	return b.String()
}

// BenchmarkLoad reads a file of ten thousand types.
func BenchmarkLoad(b *testing.B) {
	var text strings.Builder
	text.WriteString("handlers: {h: {exec: [h]}}\nlimits: {all: {max: 1000}}\ntypes:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "  type%d: {handler: h, limits: all, timeout: {run: 10m}, retry: {max: 8}}\n", i)
	}
	path := write(b, text.String())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(path, nil, testEnv); err != nil {
			b.Fatal(err)
		}
	}
}
