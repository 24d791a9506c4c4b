package retry_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/internal/retry"
)

func TestASlowRequestMakesTheNextOnesSmaller(t *testing.T) {
	const most, enough = 1000, 120 * time.Millisecond
	b := retry.NewBatch(most)
	for b.Size() > 1 {
		before := b.Size()
		if b.Took(enough+1, enough, before); b.Size() >= before || b.Size() < 1 {
			t.Fatalf("after a slow request the batch of %d is one of %d", before, b.Size())
		}
	}
	if b.Took(enough+1, enough, 1); b.Size() != 1 {
		t.Errorf("the smallest batch becomes one of %d", b.Size())
	}
	for b.Size() < most {
		before := b.Size()
		b.Took(enough/2, enough, before)
		if before >= 8 {
			b.Took(time.Millisecond, enough, 3)
		}
		if b.Size() != before {
			t.Fatalf("a request that is neither slow nor both quick and large makes the batch of %d one of %d", before, b.Size())
		}
		if b.Took(time.Millisecond, enough, before); b.Size() <= before || b.Size() > most {
			t.Fatalf("after a quick request the batch of %d is one of %d", before, b.Size())
		}
	}
}
