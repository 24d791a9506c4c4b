package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What follows repeats the contract of docs/cli.md on purpose: scripts rely on it, so these tests
// fail when the program changes it.

// The exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitConfig      = 3
	exitNotFound    = 4
	exitConflict    = 5
	exitNotAllowed  = 6
	exitUnavailable = 7
	exitPartial     = 10
	exitSignal      = 128 // plus the number of the signal
)

// The names of files that operators and scripts see.
const (
	boltFile     = "tasks.bolt"  // the store of the driver bolt, in its folder
	manifestName = "backup.json" // lists the files of a backup
)

// The severities of findings.
const (
	isInfo    = "info"
	isWarning = "warning"
	isError   = "error"
)

// finding is a line of `doctor -o json`.
type finding struct{ Severity, Check, What, Why, Do string }

type findings []finding

// has fails the test unless there is a finding of a severity and a check that says a text.
func (f findings) has(t *testing.T, severity, check, text string) {
	t.Helper()
	if !slices.ContainsFunc(f, func(f finding) bool {
		return f.Severity == severity && f.Check == check && strings.Contains(f.What, text) && (severity == isInfo || f.Why != "" && f.Do != "")
	}) {
		t.Errorf("there is no %s of %s that says %q:\n%v", severity, check, text, f)
	}
}

// no fails the test if there is a finding that is no info.
func (f findings) no(t *testing.T) {
	t.Helper()
	for _, one := range f {
		if one.Severity != isInfo {
			t.Errorf("there is a finding: %v", one)
		}
	}
}

// backupJSON is what `backup -o json` and `restore -o json` write.
type backupJSON struct {
	Folder, Store string
	Tasks, Bytes  int64
}

// manifest is the description of a backup.
type manifest struct {
	Driver  string
	TakenAt time.Time `json:"taken_at"`
	Tasks   int64
	Files   []struct{ Name string }
}

// copyJSON is what `copy -o json` writes.
type copyJSON struct {
	Tasks, Added   int64
	Settings       int
	Checksum       string
	TargetChecksum string `json:"target_checksum"`
	Complete       bool
	Differences    []struct{ Kind, ID, Detail string }
}

// alertsJSON is what `alert list -o json` writes.
type alertsJSON struct {
	Alerts []struct {
		Rule, When, Status, Summary, Detail, Silence string
		Labels                                       map[string]string
		Since                                        time.Time
		FiredAt                                      time.Time `json:"fired_at"`
		Value                                        float64
		Notified                                     []string
	}
	Silences []silenceJSON
	Unsent   []struct {
		ID, Target, Rule, Summary string
		At                        time.Time
	}
}

// silenceJSON is what `alert silence -o json` writes.
type silenceJSON struct {
	ID, Rule, Comment, By string
	Labels                map[string]string
	Until, At             time.Time
}

// alertTestJSON is what `alert test -o json` writes for each target.
type alertTestJSON struct {
	Target   string
	Accepted bool
	Problem  string
	Took     string // as 12ms
}
