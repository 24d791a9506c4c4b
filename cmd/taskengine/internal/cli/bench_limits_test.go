package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/bench/limits"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

func TestLimitsAreShownToPeopleAndPrograms(t *testing.T) {
	dir := t.TempDir()
	got := cli(t, nil, "", "bench", "limits", "--dir", dir, "--budget", "100ms", "--only", "btree/1k,fsync/append")
	rows := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if got.code != exit.OK || len(rows) != 4 || got.stderr != "" {
		t.Fatalf("exit %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	for i, text := range []string{"LIMIT", limits.Fsync, "fsync/append/p99", "btree/1k"} {
		if !strings.HasPrefix(rows[i], text) {
			t.Errorf("line %d is %q, want %s first", i, rows[i], text)
		}
	}

	got = cli(t, nil, "", "bench", "limits", "-o", "json", "--dir", dir, "--budget", "100ms", "--only", "btree/1k", "--only", "mutex")
	if got.code != exit.OK {
		t.Fatalf("exit %d, %q", got.code, got.stderr)
	}
	for i, o := range parse(t, got.stdout) {
		if want := []string{"btree/1k", "mutex/handover"}[i]; o["name"] != want || o["unit"] != "ns" {
			t.Errorf("limit %d is %v, want %s in ns", i, o, want)
		}
		low, _ := o["low"].(float64)
		value, _ := o["value"].(float64)
		high, _ := o["high"].(float64)
		if low <= 0 || low > value || value > high {
			t.Errorf("limit %d is %v", i, o)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind are %v, %v", entries, err)
	}
}

func TestLimitsThatCannotBeMeasuredAreExplained(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown":     {[]string{"--only", "fsink"}, exit.Usage, `no limit "fsink"`},
		"too short":   {[]string{"--budget", "1ms"}, exit.Usage, "at least 100ms"},
		"no duration": {[]string{"--budget", "10"}, exit.Usage, "such as"},
		"no folder":   {[]string{"--dir", filepath.Join(dir, "none")}, exit.Failure, filepath.Join(dir, "none")},
		"an argument": {[]string{"fsync"}, exit.Usage, "fsync"},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli(t, nil, "", append([]string{"bench", "limits"}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.stderr, c.says) || got.stdout != "" {
				t.Errorf("exit %d, %q, %q, want exit %d and %s", got.code, got.stdout, got.stderr, c.code, c.says)
			}
		})
	}
}

func TestFiguresHaveThreeDigitsThatCount(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0.4567, "ns", "0.457 ns"},
		{185.44, "ns", "185 ns"},
		{999.6, "ns", "1 us"},
		{302_345, "ns", "302 us"},
		{3_999_500, "ns", "4 ms"},
		{1_234_567_890, "ns", "1.23 s"},
		{-51_234, "ns", "-51.2 us"},
		{80.249, "ops/s", "80.2/s"},
		{999.9, "ops/s", "1 000/s"},
		{10_449, "ops/s", "10 400/s"},
		{185_999, "ops/s", "186 000/s"},
		{1_005_000, "ops/s", "1 000 000/s"},
		{12_345_678, "ops/s", "12 300 000/s"},
	} {
		if got := humanLimit(c.value, c.unit); got != c.want {
			t.Errorf("%v %s is %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}
