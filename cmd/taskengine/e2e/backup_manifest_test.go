//go:build !race

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refused fails the test unless a backup is not restored, with a message of all these
// parts, and the doctor finds fault with it too.
func refused(t *testing.T, driver, backup string, parts ...string) {
	t.Helper()
	into := t.TempDir()
	r := cli(t, nil, "", "restore", backup, "--to", driver+":"+filepath.Join(into, "back"))
	for _, part := range parts {
		if r.code != exitFailure || !strings.Contains(r.stderr, part) {
			t.Errorf("it does not say %q: %+v", part, r)
		}
	}
	only(t, into)
	doctor(t, exitFailure, driver+":"+backup).has(t, isError, "backup", parts[0])
}

// notCopied fails the test unless a backup is refused as the source of a copy, too.
func notCopied(t *testing.T, driver, backup, says string) {
	t.Helper()
	into := t.TempDir()
	r := cli(t, nil, "", "copy", "--from", driver+":"+backup, "--to", driver+":"+filepath.Join(into, "copy"))
	if r.code != exitFailure || !strings.Contains(r.stderr, says) {
		t.Errorf("a copy of it: %+v", r)
	}
	only(t, into)
}

// TestABackupThatLacksAnythingIsRefused damages each file of a backup in several ways. The
// store would open without the end of its log, and so would the tasks in that be lost.
func TestABackupThatLacksAnythingIsRefused(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt"} {
		t.Run(driver, func(t *testing.T) {
			data, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "b")
			file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: %s, path: %q}\nhandlers: {copy: {exec: [/bin/cat]}}\ntypes: {copy: {}}\n", driver, data))
			n := start(t, nil, "run", "-c", file)
			for range 3 {
				n.objects(t, "task", "add", "copy", "--in", "99h")
			}
			backs(t, "backup", backup, "--from", file, "--admin", n.admin)
			text, err := os.ReadFile(filepath.Join(backup, manifestName))
			if err != nil {
				t.Fatal(err)
			}
			var m manifest
			if err := json.Unmarshal(text, &m); err != nil || m.Tasks != 3 || m.Driver != driver || m.TakenAt.IsZero() {
				t.Fatalf("it says %+v, %v", m, err)
			}
			logs := 0
			for _, f := range m.Files {
				name := filepath.Join(backup, f.Name)
				whole, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(f.Name, ".log") && len(whole) > 0 {
					logs++
				}
				spoil := map[string][]byte{f.Name + " has": append(whole[:len(whole):len(whole)], 0)}
				if len(whole) > 0 {
					spoil[fmt.Sprintf("%s has 0 bytes instead of %d", f.Name, len(whole))] = nil
					spoil[fmt.Sprintf("%s has %d bytes", f.Name, len(whole)/2)] = whole[:len(whole)/2]
					changed := append([]byte{}, whole...)
					changed[len(changed)-1] ^= 1
					spoil[f.Name+" has other bytes"] = changed
				}
				for says, content := range spoil {
					if err := os.WriteFile(name, content, 0o600); err != nil {
						t.Fatal(err)
					}
					refused(t, driver, backup, says, "use another backup")
					notCopied(t, driver, backup, says)
				}
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
				refused(t, driver, backup, f.Name+" is missing")
				if err := os.WriteFile(name, whole, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if driver == "pebble" && logs == 0 {
				t.Error("the backup had no log with anything in it")
			}
			doctor(t, exitOK, driver+":"+backup).has(t, isInfo, "backup", "with 3 tasks")
			if said := backs(t, "restore", backup, "--to", driver+":"+filepath.Join(t.TempDir(), "back")); said.Tasks != 3 {
				t.Errorf("it says %+v", said)
			}
		})
	}
}

func TestAManifestIsNotTrustedBlindly(t *testing.T) {
	t.Parallel()
	source, backup := boltOf(t, 10), filepath.Join(t.TempDir(), "b")
	backs(t, "backup", backup, "--from", source)
	name := filepath.Join(backup, manifestName)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	alter := func(old, now string) {
		t.Helper()
		text := strings.Replace(string(whole), old, now, 1)
		if text == string(whole) {
			t.Fatalf("there is no %q in %s", old, whole)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ old, now, says string }{
		{`"tasks": 10`, `"tasks": 11`, "there are 10 tasks in"},
		{`"format": 1`, `"format": 2`, "a newer one"},
		{`"format": 1`, `"format": 0`, "is damaged"},
		{`"driver": "bolt"`, `"driver": "other"`, "is damaged"},
		{`"name": "tasks.bolt"`, `"name": "../tasks.bolt"`, "is damaged"},
		{`"name": "tasks.bolt"`, `"name": "tasks.belt"`, "tasks.belt is missing"},
		{string(whole[len(whole)/2:]), "", "is damaged"},
	} {
		alter(c.old, c.now)
		refused(t, "bolt", backup, c.says)
	}

	// A store that was copied by hand can be taken over, by another command.
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	r := cli(t, nil, "", "restore", backup, "--to", source)
	if r.code != exitFailure || !strings.Contains(r.stderr, "there is no "+manifestName) || !strings.Contains(r.stderr, "taskengine copy --from bolt:"+backup) {
		t.Errorf("without a manifest: %+v", r)
	}
	doctor(t, exitOK, "bolt:"+backup)
	copies(t, exitOK, "--from", "bolt:"+backup, "--to", "bolt:"+filepath.Join(t.TempDir(), "data"))
}
