package handler

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// answered returns a session of a worker that has sent the answers to some runs, and runs others.
func answered(t *testing.T, slots int, sent, running []uint64) *session {
	t.Helper()
	s := newSession(echo, slots)
	t.Cleanup(s.close)
	s.kept = newKept()
	s.resume(&wire.Welcome{Slots: uint32(slots)}, 0)
	for _, id := range sent {
		s.kept.sent = append(s.kept.sent, &wire.Finish{RunId: id})
	}
	for _, id := range running {
		s.running[id] = newRun(&wire.Run{RunId: id}, nil, s)
	}
	return s
}

func (s *session) held() []uint64 {
	ids := s.holds()
	slices.Sort(ids)
	return ids
}

func TestAnswersAreKeptUntilTheyHaveArrived(t *testing.T) {
	s := answered(t, 10, []uint64{1, 2, 3, 4}, []uint64{9})
	for _, c := range []struct {
		arrived uint64
		held    []uint64
	}{
		{1, []uint64{2, 3, 4, 9}},
		{1, []uint64{2, 3, 4, 9}}, // said twice
		{3, []uint64{4, 9}},
		{99, []uint64{9}}, // more than there were
	} {
		s.kept.acknowledge(c.arrived)
		if got := s.held(); !slices.Equal(got, c.held) {
			t.Errorf("after %d have arrived, it holds %v, want %v", c.arrived, got, c.held)
		}
	}
}

// heard is a stream on which one frame comes.
type heard struct {
	stream
	frame *wire.ToHandler // nil when it has come
}

func (s *heard) Recv() (*wire.ToHandler, error) {
	if f := s.frame; f != nil {
		s.frame = nil
		return f, nil
	}
	return nil, io.EOF
}

func TestASessionHearsThatAnswersHaveArrived(t *testing.T) {
	s := answered(t, 10, []uint64{1, 2, 3}, nil)
	if err := s.receive(&heard{frame: &wire.ToHandler{Received: 2}}); err != io.EOF {
		t.Error(err)
	}
	if got := s.held(); !slices.Equal(got, []uint64{3}) {
		t.Errorf("it holds %v", got)
	}
}

func TestASessionThatIsResumedSendsWhatHasNotArrivedAndHasCreditsForTheRest(t *testing.T) {
	s := answered(t, 10, []uint64{1, 2, 3, 4}, []uint64{7, 8})
	lost := s.running[8]
	s.resume(&wire.Welcome{Slots: 10, Resumed: true, Received: 3, Runs: []uint64{4, 7}}, 0)
	if len(s.out) != 1 || s.out[0].GetRunId() != 4 || !slices.Equal(s.held(), []uint64{4, 7}) {
		t.Errorf("it sends %v and holds %v", s.out, s.held())
	}
	if lost.Err() == nil || s.running[7].Err() != nil {
		t.Errorf("the run that is not open ended with %v, the other with %v", lost.Err(), s.running[7].Err())
	}
	if s.credits != 7 { // one slot runs 7, one is taken by 8 until its handler returns, one credit comes with the answer 4
		t.Errorf("it gives %d credits, want 7", s.credits)
	}
	s.runs.Add(1)
	s.answer(lost, &wire.Finish{RunId: 8})
	if s.credits != 8 || len(s.out) != 1 {
		t.Errorf("after the return of the lost run it gives %d credits and sends %v", s.credits, s.out)
	}
}

func TestASessionThatIsNotResumedSendsNothingOfBefore(t *testing.T) {
	s := answered(t, 10, []uint64{1, 2}, []uint64{7})
	lost := s.running[7]
	s.out = []*wire.Finish{{RunId: 3}}
	s.resume(&wire.Welcome{Slots: 10, Received: 2}, 0)
	if len(s.out) != 0 || len(s.held()) != 0 || lost.Err() == nil || s.credits != 9 {
		t.Errorf("it sends %v, holds %v, and gives %d credits; the run ended with %v", s.out, s.held(), s.credits, lost.Err())
	}
	s.begin([]*wire.Run{{RunId: 7, Type: "none"}}) // a run of the new session may have the number of one of before
	if len(s.out) != 1 || s.out[0].GetRefused() == nil {
		t.Errorf("a new run is answered with %v", s.out)
	}
}

func TestACheckpointOfATaskThatHasEndedIsSentAgainBeforeTheAnswer(t *testing.T) {
	s := answered(t, 10, nil, []uint64{7, 8, 9})
	s.resume(&wire.Welcome{Slots: 10, Resumed: true, Runs: []uint64{7, 8, 9}, Features: []string{"checkpoint"}}, 0)
	for id, r := range s.running {
		r.terms = s.terms
		answer, err := r.save([]byte("page 7"))
		if err != nil {
			t.Fatal(err)
		}
		switch id {
		case 7: // the host has stored it, and the answer came
			s.stored(&wire.Stored{RunId: 7, Number: 1})
			if err := <-answer; err != nil {
				t.Error(err)
			}
		case 8: // the handler has returned before the answer came
			s.runs.Add(1)
			s.answer(r, &wire.Finish{RunId: 8})
			if err := <-answer; !errors.Is(err, errReturned) {
				t.Errorf("the handler got %v", err)
			}
		}
	}
	s.takeReports(nil) // they are sent, and lost
	s.resume(&wire.Welcome{Slots: 10, Resumed: true, Runs: []uint64{7, 8, 9}, Features: []string{"checkpoint"}}, 0)
	var again []uint64
	for _, r := range s.takeReports(nil) {
		again = append(again, r.checkpoint.GetRunId())
	}
	if slices.Sort(again); !slices.Equal(again, []uint64{8, 9}) || len(s.out) != 1 {
		t.Errorf("the checkpoints of the runs %v are sent again, and the answers %v", again, s.out)
	}
}
