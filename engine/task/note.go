package task

import "time"

// MaxCheckpoint is how many bytes an attempt may leave for the next one.
const MaxCheckpoint = 1 << 20

// MaxProgressText is how many bytes of a message about progress a row keeps; longer ones
// are cut.
const MaxProgressText = 256

// Progress is how far an attempt is. The zero value is none.
type Progress struct {
	Done    uint64    // in a unit of the handler's own
	Total   uint64    // zero if nobody knows
	Message string    // for people; at most MaxProgressText bytes
	At      time.Time // when it was said
}

// Notes is what attempts of a task said before they ended. Most tasks have none, which is
// why a row has a pointer to them; they are not changed once a row has them.
type Notes struct {
	Progress   Progress // of the newest attempt
	Checkpoint []byte   // for the next attempt; a store may leave it out as it may the payload
}

// NewNotes returns notes that hold the checkpoint itself, nil if there is nothing to note.
func NewNotes(p Progress, checkpoint []byte) *Notes {
	if len(checkpoint) > 0 {
		return &Notes{p, checkpoint}
	}
	if p != (Progress{}) {
		return &Notes{Progress: p}
	}
	return nil
}

// Progress returns how far the newest attempt said that it is.
func (t *Task) Progress() Progress {
	if t.Notes == nil {
		return Progress{}
	}
	return t.Notes.Progress
}

// Checkpoint returns what an attempt left for the ones after it, nil if none did. It goes
// when the work is done. The bytes are those of t.
func (t *Task) Checkpoint() []byte {
	if t.Notes == nil {
		return nil
	}
	return t.Notes.Checkpoint
}

// Note is what a running attempt wants known or kept before it ends. It changes nothing
// that anybody decides by, and so no version: the attempt's Ref stays valid.
type Note struct {
	Ref
	Progress   *Progress // nil leaves what there is
	Checkpoint []byte    // nil leaves what there is, empty removes it
}

// Apply writes n into t and reports whether it did: it does nothing and returns false
// when t is at another version or not running. t keeps a reference to the checkpoint.
func (n Note) Apply(t *Task) bool {
	if t.Ref() != n.Ref || t.State != Processing {
		return false
	}
	progress, checkpoint := t.Progress(), t.Checkpoint()
	if n.Progress != nil {
		progress = *n.Progress
		progress.Message = cut(progress.Message, MaxProgressText)
		progress.At = Stamp(progress.At)
	}
	if n.Checkpoint != nil {
		checkpoint = n.Checkpoint
	}
	t.Notes = NewNotes(progress, checkpoint)
	return true
}
