//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/servertest"
)

func TestTheNewestVersionIsTaken(t *testing.T) {
	bins := []string{"/p/9.6/bin", "/p/15/bin", "/p/17/bin", "/p/16/bin", "/p/old/bin"}
	if bin := newest(bins); bin != "/p/17/bin" {
		t.Errorf("the newest is %s", bin)
	}
	if bin := newest(nil); bin != "" {
		t.Errorf("the newest of none is %s", bin)
	}
}

func TestTheVariableGoesFirst(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(binVariable, bin)
	if found, err := findPostgres(); found != bin || err != nil {
		t.Errorf("found %s, %v; want %s", found, err, bin)
	}
}

func TestARunWithoutPostgresFails(t *testing.T) {
	tests := exec.Command(os.Args[0], "-test.run=^TestTheNewestVersionIsTaken$", "-test.v")
	tests.Env = append(os.Environ(), binVariable+"="+t.TempDir())
	said, err := tests.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(string(said), binVariable) || strings.Contains(string(said), "PASS") {
		t.Errorf("it said:\n%s", said)
	}
}

func TestAPortThatIsTakenIsNoticed(t *testing.T) {
	s := startOne(t)
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := s.launch(server.port); !servertest.PortTaken(err) {
		t.Errorf("the server on a port that is taken: %v", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatalf("and then on its own: %v", err)
	}
	path, err := findBouncer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.launchBouncer(path, server.port, nil); !servertest.PortTaken(err) {
		t.Errorf("a bouncer on a port that is taken: %v", err)
	}
}
