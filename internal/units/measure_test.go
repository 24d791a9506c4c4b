package units

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	for s, want := range map[string]time.Duration{
		"0s": 0, "30s": 30 * time.Second, "1.5h": 90 * time.Minute, "1d12h": 36 * time.Hour, "2w": 14 * day, "1ms1us1ns": 1001001,
		"0.1s": 100 * time.Millisecond, "106751d": 106751 * day, "00005s": 5 * time.Second,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "30", "s", "-1s", "+1s", "1 s", "1s ", ".5s", "5.s", "1.2.3s", "1e3s", "106752d", "1S", "1M", "0.1ns", "1/2s", "1ß"} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("%q: got %v, want an error", s, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for s, want := range map[string]int{
		"0B": 0, "1B": 1, "64KiB": 65536, "1.5MiB": 1572864, "1kB": 1000, "2MB": 2e6, "1GiB": 1 << 30, "1GB": 1e9, "1MiB1B": 1<<20 + 1,
	} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"1", "1KB", "1K", "1mb", "0.5B", "99999999999999999999B", "1 KiB"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("%q: got %v, want an error", s, got)
		}
	}
}

func TestDurationsThatGoPrintsAreReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Min(0).Draw(t, "d"))
		if got, err := ParseDuration(want.String()); err != nil || got != want {
			t.Fatalf("%s: got %v, %v", want, got, err)
		}
	})
}

func TestSizesThatAreShownAreReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.IntMin(0).Draw(t, "n")
		if got, err := ParseSize(ShowSize(want)); err != nil || got != want {
			t.Fatalf("%s: got %v, %v", ShowSize(want), got, err)
		}
	})
}
