//go:build unix

package main

import (
	"strings"
	"testing"
	"time"
)

func TestPhasesAreReadWithTheirTimes(t *testing.T) {
	phases, err := parsePhases("warmup, idle-in-tx=1h,burst=5s", time.Minute)
	if err != nil || len(phases) != 3 {
		t.Fatalf("they are %v, %v", phases, err)
	}
	for i, want := range []struct {
		name     string
		lasts    time.Duration
		burst    bool
		database bool
	}{{"warmup", time.Minute, false, false}, {"idle-in-tx", time.Hour, false, true}, {"burst", 5 * time.Second, true, false}} {
		p := phases[i]
		if p.name != want.name || p.lasts != want.lasts || p.burst != want.burst || p.database != want.database {
			t.Errorf("phase %d is %+v", i, p)
		}
	}
	if all, err := parsePhases(defaultPhases, time.Minute); err != nil || len(withoutDatabase(all)) >= len(all) {
		t.Errorf("the default phases are %v, %v", all, err)
	}
}

func TestAPhaseThatIsNoneIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"clean,vacuum": `"vacuum" is no phase; use warmup, clean`, "clean=soon": "clean: time: invalid duration",
		"clean=1s": "clean lasts 1s; a phase lasts at least 2s", "": `"" is no phase`,
	} {
		if _, err := parsePhases(text, time.Minute); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
}

func TestASubjectWithoutADatabaseHasNoPhaseTwiceInARow(t *testing.T) {
	phases, err := parsePhases("clean,idle-in-tx,recovery,postgres-restart,recovery,kill-worker", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range withoutDatabase(phases) {
		names = append(names, p.name)
	}
	if got := strings.Join(names, " "); got != "clean recovery kill-worker" {
		t.Errorf("the phases are %s", got)
	}
}
