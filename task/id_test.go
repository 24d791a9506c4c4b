package task_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/task"
)

func TestAnIDIsAUUIDOfVersion7ThatHoldsItsTime(t *testing.T) {
	now := time.UnixMilli(0x0190a6f07c3e).Add(500 * time.Microsecond)
	id := task.NewIDs([32]byte{1}).Next(now)
	text := id.String()
	if !strings.HasPrefix(text, "0190a6f0-7c3e-7800-") {
		t.Errorf("the id is %s, want the millisecond, the version 7 and half a millisecond first", text)
	}
	if variant := id[8] >> 6; variant != 0b10 {
		t.Errorf("the variant of %s is %b, want 10", text, variant)
	}
}

func TestIDsStrictlyIncreaseWhateverTheClockDoes(t *testing.T) {
	clocks := map[string]func(i int) time.Time{
		"stands still": func(int) time.Time { return time.UnixMilli(1_700_000_000_000) },
		"runs": func(i int) time.Time {
			return time.UnixMilli(1_700_000_000_000).Add(time.Duration(i) * time.Microsecond)
		},
		"steps back":         func(i int) time.Time { return time.UnixMilli(1_700_000_000_000).Add(-time.Duration(i) * time.Second) },
		"jumps to and fro":   func(i int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(i%7)*1000) },
		"was never set":      func(int) time.Time { return time.Unix(0, 0) },
		"shows the years BC": func(i int) time.Time { return time.UnixMilli(int64(i%3) - 1) },
		"is the zero time":   func(i int) time.Time { return time.Time{}.Add(time.Duration(i%2) * 100 * 365 * 24 * time.Hour) },
	}
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			ids := task.NewIDs([32]byte{})
			last := ids.Next(clock(0))
			for i := 1; i < 10_000; i++ {
				id := ids.Next(clock(i))
				if id.Compare(last) <= 0 {
					t.Fatalf("id %d is %s, after %s", i, id, last)
				}
				if id[6]>>4 != 7 || id[8]>>6 != 0b10 {
					t.Fatalf("%s is no UUID of version 7", id)
				}
				last = id
			}
		})
	}
}

func TestIDsIncreaseForAnySequenceOfInstants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := task.NewIDs([32]byte{})
		var last task.ID
		for _, ns := range rapid.SliceOf(rapid.Int64Range(math.MinInt64, 1<<62)).Draw(t, "instants") {
			id := ids.Next(time.Unix(0, ns))
			if id.Compare(last) <= 0 {
				t.Fatalf("%s came after %s", id, last)
			}
			last = id
		}
	})
}

func TestIDsOfManyGoroutinesAreUnique(t *testing.T) {
	ids := task.NewIDs([32]byte{})
	now := time.UnixMilli(1_700_000_000_000)
	var mu sync.Mutex
	seen := map[task.ID]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				id := ids.Next(now)
				mu.Lock()
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 4000 {
		t.Errorf("%d different ids of 4000", len(seen))
	}
}

func TestIDsOfTwoSeedsDiffer(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	if a, b := task.NewIDs([32]byte{1}).Next(now), task.NewIDs([32]byte{2}).Next(now); a == b {
		t.Errorf("both sources made %s", a)
	}
}

func TestParseIDRefusesWhatIsNoUUID(t *testing.T) {
	for _, bad := range []string{
		"", "x", "0190a6f07c3e7cc08b5e3f1d2c4b5a69",
		"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a6", "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a699",
		"0190a6f0_7c3e-7cc0-8b5e-3f1d2c4b5a69", "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a6g",
		"0190a6f07-c3e-7cc0-8b5e-3f1d2c4b5a69", "{190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a6}",
		strings.Repeat("é", 18), strings.Repeat("a", 1<<16),
	} {
		id, err := task.ParseID(bad)
		if !errors.Is(err, task.ErrBadID) || !id.IsZero() {
			t.Errorf("ParseID(%.40q) returned %v and %v, want ErrBadID", bad, id, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("ParseID(%.40q) returned an error of %d bytes", bad, len(err.Error()))
		}
	}
}

func TestParseIDReadsEitherCase(t *testing.T) {
	const text = "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"
	for _, s := range []string{text, strings.ToUpper(text)} {
		if id, err := task.ParseID(s); err != nil || id.String() != text {
			t.Errorf("ParseID(%q) returned %v and %v", s, id, err)
		}
	}
}

func TestAnIDSurvivesItsTextForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := task.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		if got, err := task.ParseID(want.String()); err != nil || got != want {
			t.Fatalf("%s came back as %v, %v", want, got, err)
		}
		text, err := want.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got task.ID
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Fatalf("%s came back as %v, %v", text, got, err)
		}
	})
}

func TestUnmarshallingBadTextLeavesTheIDAlone(t *testing.T) {
	id := task.ID{1}
	if err := id.UnmarshalText([]byte("nonsense")); !errors.Is(err, task.ErrBadID) || id != (task.ID{1}) {
		t.Errorf("the id became %v, with %v", id, err)
	}
}

func TestIDsAreOrderedByTheirBytes(t *testing.T) {
	a, b := task.ID{0: 1}, task.ID{0: 1, 15: 1}
	if a.Compare(b) != -1 || b.Compare(a) != 1 || a.Compare(a) != 0 {
		t.Errorf("%v and %v compare wrongly", a, b)
	}
	if !(task.ID{}).IsZero() || b.IsZero() {
		t.Error("IsZero is wrong")
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69")
	f.Add("0190A6F0-7C3E-7CC0-8B5E-3F1D2C4B5A69")
	f.Add("00000000-0000-0000-0000-000000000000")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := task.ParseID(s)
		if err != nil {
			if !errors.Is(err, task.ErrBadID) || !id.IsZero() {
				t.Fatalf("ParseID(%q) returned %v and %v", s, id, err)
			}
			return
		}
		if id.String() != strings.ToLower(s) {
			t.Fatalf("ParseID(%q) returned %s", s, id)
		}
	})
}

func BenchmarkNextID(b *testing.B) {
	ids := task.NewIDs([32]byte{})
	now := time.UnixMilli(1_700_000_000_000)
	b.ReportAllocs()
	for b.Loop() {
		ids.Next(now)
	}
}
