//go:build !race

package conform_test

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/plugins/conform"
)

func TestThePythonSDKConforms(t *testing.T) {
	const program = "../sdk/python/tests/conformance.py"
	built(t, program)
	python := cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")
	good(t, examine(t, conform.Options{Command: []string{python, program}, Env: []string{"PATH", "PYTHONDONTWRITEBYTECODE=1"}}))
}

func TestTheNodeSDKConforms(t *testing.T) {
	const program = "../sdk/node/build/conformance.js" // after npm ci && npm test
	built(t, program)
	good(t, examine(t, conform.Options{Command: []string{"node", program}}))
}

func TestTheJavaSDKConforms(t *testing.T) {
	const arguments = "../sdk/java/target/conformance.args" // after mvn verify
	built(t, arguments)
	good(t, examine(t, conform.Options{Command: []string{"java", "@" + arguments}}))
}

// built skips the test if the conformance program of an SDK is not there. scripts/test
// builds them, and says which parts were not exercised.
func built(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not built", file)
	}
}

// TestTheShellHandlerOfTheDocumentConforms runs what docs/handlers.md shows, as it is there.
func TestTheShellHandlerOfTheDocumentConforms(t *testing.T) {
	doc, err := os.ReadFile("../../docs/handlers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(doc, []byte("\n### Without gRPC\n"))
	_, rest, _ = bytes.Cut(rest, []byte("\n```sh\n"))
	script, _, ok := bytes.Cut(rest, []byte("\n```\n"))
	if !ok {
		t.Fatal("docs/handlers.md has no shell handler")
	}
	file := filepath.Join(t.TempDir(), "upper.sh")
	if err := os.WriteFile(file, script, 0o700); err != nil {
		t.Fatal(err)
	}
	r := examine(t, conform.Options{Command: []string{"/bin/sh", file}, Type: "upper", Payload: []byte("hello")})
	good(t, r, ofSockets(r)...)
	if r.Transport != "json" {
		t.Errorf("the transport is %q", r.Transport)
	}
}

// TestTheCppHandlerConforms examines a handler that was written from docs/handlers.md alone.
func TestTheCppHandlerConforms(t *testing.T) {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("g++ is not installed")
	}
	header := exec.CommandContext(t.Context(), "g++", "-E", "-x", "c++", "-include", "nlohmann/json.hpp", "/dev/null")
	if header.Run() != nil {
		t.Skip("the JSON library of the package nlohmann-json3-dev is not installed")
	}
	program := filepath.Join(t.TempDir(), "upper")
	out, err := exec.CommandContext(t.Context(), "g++",
		"-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program, "testdata/upper.cpp").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := examine(t, conform.Options{Command: []string{program}, Type: "upper", Payload: []byte("hello")})
	good(t, r, ofSockets(r)...)
	if r.Transport != "json" || !strings.HasPrefix(r.SDK, "c++") {
		t.Errorf("the report begins with %q, %q", r.Transport, r.SDK)
	}
}

// workers are the conformance programs of the SDKs in other languages that can be workers.
func workers() map[string]conform.Options {
	python := cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")
	return map[string]conform.Options{
		"python": {Command: []string{python, "../sdk/python/tests/conformance.py"}, Env: []string{"PATH", "PYTHONDONTWRITEBYTECODE=1"}},
		"node":   {Command: []string{"node", "../sdk/node/build/conformance.js"}},
		"java":   {Command: []string{"java", "@../sdk/java/target/conformance.args"}},
	}
}

func TestWorkersOfAllSDKsConform(t *testing.T) {
	for name, o := range workers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			built(t, strings.TrimPrefix(o.Command[len(o.Command)-1], "@"))
			examineWorker(t, o)
		})
	}
}
