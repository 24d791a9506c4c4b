package cli

import (
	"bytes"
	"testing"
	"time"
)

func TestACommandReportsItsProgressAtMostOnceInAWhile(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	at := time.Now()
	done := (&app{stderr: &out}).notesOf(func() time.Time { return at }, "rows")
	done(1, 4)
	at = at.Add(progressEvery)
	done(2, 4)
	done(3, 4)
	at = at.Add(progressEvery)
	done(4, 0)
	if want := "rows: 2 of 4 (50%)\nrows: 4\n"; out.String() != want {
		t.Errorf("got %q, not %q", out.String(), want)
	}
}
