package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/logtest"
)

// audit opens the audit log in a file, and returns it with the log of the node.
func audit(t *testing.T, path string) (*slog.Logger, *logtest.Buffer) {
	t.Helper()
	c, log := config.Default(), new(logtest.Buffer)
	c.API.Audit = path
	p := &parts{node: &Node{Config: c, Log: slog.New(slog.NewTextHandler(log, nil))}}
	l, err := p.openAudit()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return l, log
}

func TestAnAuditLogThatWasRenamedGoesOnInANewFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "audit.log")
	l, _ := audit(t, path)
	l.Info("audit", "verb", "one")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Info("audit", "verb", "two")
	for file, want := range map[string]string{path + ".1": "one", path: "two"} {
		text, err := os.ReadFile(file)
		if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), want) {
			t.Errorf("%s has %q, %v; want %s", file, text, err, want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

func TestAuditLinesOfSeveralRequestsAreWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, _ := audit(t, path)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				l.Info("audit", "verb", strings.Repeat("x", 3000))
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), strings.Repeat("x", 3000)+"\"}\n") != 160 {
		t.Errorf("the file has %d bytes and %d lines, %v", len(text), strings.Count(string(text), "\n"), err)
	}
}

func TestAnAuditLineThatCannotBeWrittenIsInTheLogOfTheNode(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audits")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	l, log := audit(t, filepath.Join(folder, "audit.log"))
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	l.Info("audit", "verb", "Cancel", "who", "ops")
	if said := log.String(); !strings.Contains(said, "cannot be written") || !strings.Contains(said, "Cancel") || !strings.Contains(said, "ops") {
		t.Errorf("the log of the node is %s", said)
	}
}
