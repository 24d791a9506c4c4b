package hints_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/hints"
	"github.com/taskengine/taskengine/task"
)

func example(number uint64) task.Hint {
	return task.Hint{State: task.Submitted, Trigger: task.Trigger{
		Ref: task.Ref{ID: task.ID{1, byte(number)}, Version: number}, Queue: task.Queue{Type: "mail", Group: "g"},
		Rank: task.Rank{Priority: 5, ReadyAt: 1_700_000_000_000_000, Seq: number}, Shard: 5,
	}}
}

func anyHints() *rapid.Generator[[]task.Hint] {
	text := rapid.OneOf(rapid.String(), rapid.Just("a\x00\xff"), rapid.Just(strings.Repeat("g", 2000)))
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) task.Hint {
		h := task.Hint{State: task.State(rapid.Uint8().Draw(t, "state")), Trigger: task.Trigger{
			Ref:   task.Ref{ID: task.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")), Version: rapid.Uint64().Draw(t, "version")},
			Queue: task.Queue{Type: text.Draw(t, "type"), Group: text.Draw(t, "group")},
			Rank:  task.Rank{Priority: rapid.Uint8().Draw(t, "priority"), ReadyAt: rapid.Int64().Draw(t, "ready"), Seq: rapid.Uint64().Draw(t, "seq")},
			Shard: rapid.Uint16().Draw(t, "shard"), Turn: task.Turn(rapid.Uint8Range(0, 2).Draw(t, "turn")),
		}}
		switch about := task.Subject(rapid.Uint8Range(0, 4).Draw(t, "about")); about {
		case task.AboutKey:
			return task.Hint{About: about, OrderingKey: "key", Trigger: task.Trigger{Shard: h.Shard, Queue: task.Queue{Type: h.Type}}}
		case task.AboutShard:
			return coord.Wake(h.Shard)
		case task.AboutAll, task.AboutSettings:
			return task.Hint{About: about}
		}
		if rapid.Bool().Draw(t, "ordered") {
			h.OrderingKey = rapid.StringN(0, -1, 500).Draw(t, "ordering key")
		}
		if rapid.Bool().Draw(t, "timed") {
			h.NextEventAt = time.UnixMicro(rapid.Int64Range(-1<<57, 1<<57).Draw(t, "at")).UTC()
		}
		return h
	}), 0, 200)
}

func TestHintsArePackedIntoSmallPiecesAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hs, room := anyHints().Draw(t, "hints"), rapid.IntRange(5000, 20000).Draw(t, "room")
		var got []task.Hint
		for _, piece := range hints.Pack(hs, room) {
			if len(piece) > room {
				t.Fatalf("a piece of %d bytes", len(piece))
			}
			part, err := hints.Unpack(piece)
			if err != nil {
				t.Fatal(err)
			}
			clear(piece) // the hints share no memory with it
			got = append(got, part...)
		}
		if !slices.Equal(got, hs) {
			t.Fatalf("packed %v, unpacked %v", hs, got)
		}
	})
}

func TestAHintTooLargeWakesItsShard(t *testing.T) {
	large := example(1)
	large.Group = strings.Repeat("g", 8000)
	pieces := hints.Pack([]task.Hint{example(0), large, example(2)}, 1000)
	if len(pieces) != 1 {
		t.Fatalf("%d pieces", len(pieces))
	}
	got, err := hints.Unpack(pieces[0])
	if want := []task.Hint{example(0), coord.Wake(5), example(2)}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("unpacked %v, %v, want %v", got, err, want)
	}
}

func TestHintsOfAnotherVersionAreNotDecoded(t *testing.T) {
	piece := hints.Pack([]task.Hint{example(0)}, 1000)[0]
	piece[0]++
	got, err := hints.Unpack(piece)
	if got != nil || !errors.Is(err, hints.ErrVersion) || !strings.Contains(err.Error(), "2, and this program knows 1") {
		t.Errorf("unpacked %v, %v", got, err)
	}
}

func TestTheHintsBeforeAMistakeAreDecoded(t *testing.T) {
	hs := []task.Hint{example(0), example(1), example(2)}
	whole := hints.Pack(hs, 1000)[0]
	ends := 0
	for n := 1; n < len(whole); n++ {
		got, err := hints.Unpack(whole[:n])
		if !slices.Equal(got, hs[:len(got)]) {
			t.Fatalf("of the first %d bytes: %v", n, got)
		}
		if err == nil {
			ends++
		}
	}
	if ends != len(hs) { // after the version, and after each hint but the last
		t.Errorf("%d beginnings are whole", ends)
	}
}

func TestAHintAboutAnUnknownSubjectIsNotDecoded(t *testing.T) {
	piece := append(hints.Pack([]task.Hint{example(0)}, 1000)[0], byte(task.AboutSettings)+1)
	got, err := hints.Unpack(piece)
	if !slices.Equal(got, []task.Hint{example(0)}) || !errors.Is(err, hints.ErrGarbage) {
		t.Errorf("unpacked %v, %v", got, err)
	}
}

func FuzzUnpack(f *testing.F) {
	late := example(3)
	late.Turn, late.OrderingKey, late.NextEventAt = task.Behind, "key", time.UnixMicro(1)
	f.Add(hints.Pack([]task.Hint{example(0), late, coord.Wake(3), coord.WakeAll(), coord.Changed(), {About: task.AboutKey, OrderingKey: "k"}}, 1000)[0])
	f.Add([]byte{})
	f.Add([]byte{1, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		hs, err := hints.Unpack(b)
		if err != nil {
			return
		}
		var again []task.Hint
		for _, piece := range hints.Pack(hs, max(100, 2*len(b)+100)) {
			part, err := hints.Unpack(piece)
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, part...)
		}
		if !slices.Equal(again, hs) {
			t.Errorf("decoded %v, and encoded and decoded again %v", hs, again)
		}
	})
}
