package postgres

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// ordering returns a Coord with an open session, and a holder of it.
func ordering() (*Coord, *holder) {
	h := &holder{id: task.ID{1}, live: true, changed: wakeup.New(), orders: map[string]*standing{}}
	c := &Coord{holders: map[task.ID]*holder{h.id: h}, ordersSoon: wakeup.New()}
	c.session = session{id: task.ID{2}, open: true, proof: lease.Proof{Until: time.Now().Add(time.Hour)}}
	return c, h
}

// want orders permits of a limit.
func (h *holder) want(c *Coord, number uint64, want int) {
	c.Order(h.id, coord.Order{Name: "limit", Number: number, Want: want, Max: 9})
}

// send returns the next request.
func send(t *testing.T, c *Coord) ordersRequest {
	t.Helper()
	q, ok := c.nextOrders(maxOrders)
	if !ok {
		t.Fatal("there is no request")
	}
	return q
}

// answer applies the answer to q that h has a number of permits, and returns the holdings that h gets.
func answer(t *testing.T, c *Coord, h *holder, q ordersRequest, held int) coord.Holding {
	t.Helper()
	c.applyOrders(q, ordersAnswer{Alive: true, Holdings: []holdingEntry{{Holder: h.id, Name: "limit", Held: held, Fence: 7}}})
	news, _ := c.takeNews(h)
	if len(news) != 1 {
		t.Fatalf("the holder gets %+v", news)
	}
	return news[0]
}

func TestAnAnswerFromBeforeAnOrderTellsOfNoMoreThanTheHolderKeeps(t *testing.T) {
	c, h := ordering()
	h.want(c, 1, 5)
	q := send(t, c)
	h.want(c, 2, 3)
	h.want(c, 3, 8)
	if got := answer(t, c, h, q, 5); got.Held != 3 || got.Number != 1 {
		t.Errorf("the holder keeps 3, and gets %+v", got)
	}
	q = send(t, c)
	if e := q.Orders[0]; e.Keep != 3 || e.Wanted != 8 {
		t.Errorf("the holder keeps 3 and wants 8, and the database gets %+v", e)
	}
	if got := answer(t, c, h, q, 8); got.Held != 8 || got.Number != 3 || got.Fence != 7 {
		t.Errorf("the holder has 8, and gets %+v", got)
	}
}

func TestNewsThatWaitsToBeTakenHasNoMoreThanTheHolderKeeps(t *testing.T) {
	c, h := ordering()
	h.want(c, 1, 5)
	q := send(t, c)
	c.applyOrders(q, ordersAnswer{Alive: true, Holdings: []holdingEntry{{Holder: h.id, Name: "limit", Held: 5, Fence: 7}}})
	h.want(c, 2, 0)
	news, _ := c.takeNews(h)
	if len(news) != 1 || news[0].Held != 0 || news[0].Fence != 0 || news[0].Number != 1 {
		t.Errorf("the holder gives all back, and gets %+v", news)
	}
}

func TestWhatAnOrderGivesBackIsGivenBackThoughItsRequestFails(t *testing.T) {
	c, h := ordering()
	h.want(c, 1, 5)
	answer(t, c, h, send(t, c), 5)
	h.want(c, 2, 2)
	failed := send(t, c)
	h.want(c, 3, 9)
	c.requeue(failed)
	q := send(t, c)
	if len(q.Orders) != 1 || q.Orders[0].Keep != 2 || q.Orders[0].Wanted != 9 || !q.All {
		t.Errorf("after a request that failed, the next one is %+v", q)
	}
}

func TestNothingIsKeptOfALimitThatTheHolderDoesNotUse(t *testing.T) {
	c, h := ordering()
	h.want(c, 1, 5)
	answer(t, c, h, send(t, c), 5)
	h.want(c, 2, 0)
	c.applyOrders(send(t, c), ordersAnswer{Alive: true})
	if news, _ := c.takeNews(h); len(news) != 1 || news[0] != (coord.Holding{Name: "limit", Number: 2}) {
		t.Errorf("the holder gets %+v", news)
	}
	if len(h.orders)+len(c.orders)+len(h.news) > 0 {
		t.Errorf("kept %v, %v, %v", h.orders, c.orders, h.news)
	}
}

func TestTheNamesOfLimitsFitIntoAnIndex(t *testing.T) {
	long := make([]byte, 5000)
	for i := range long {
		long[i] = "é"[i%2]
	}
	a, b := keyOf(string(long)+"a"), keyOf(string(long)+"b")
	if a == b || len(a) > 1100 || keyOf(string(long)+"a") != a {
		t.Errorf("the keys are %q and %q", a, b)
	}
	if keyOf("name") != "name" {
		t.Error("a short name is not its own key")
	}
}

func TestARequestThatFailedIsFollowedByAllInParts(t *testing.T) {
	c, h := ordering()
	h.want(c, 1, 5)
	c.requeue(send(t, c))
	after := "limit"
	first := send(t, c)
	c.applyOrders(first, ordersAnswer{Alive: true, After: &after})
	second := send(t, c)
	if !first.All || first.After != "" || !second.All || second.After != after || second.Names != maxOrders {
		t.Errorf("the parts begin with %+v and %+v", first, second)
	}
	c.requeue(second)
	again := send(t, c)
	if !again.All || again.After != "" {
		t.Errorf("after a part that failed the next one is %+v", again)
	}
	c.applyOrders(again, ordersAnswer{Alive: true})
	if q, ok := c.nextOrders(maxOrders); ok {
		t.Errorf("after the last part there is %+v", q)
	}
}

func TestAHolderIsGoneWhenTheDatabaseHasNothingOfIt(t *testing.T) {
	c, h := ordering()
	h.gone = make(chan struct{})
	c.ended = append(c.ended, h)
	c.applyOrders(send(t, c), ordersAnswer{Alive: true, Ending: true})
	select {
	case <-h.gone:
		t.Error("a holder is gone that still has something")
	default:
	}
	q := send(t, c)
	if len(q.Ended) != 1 {
		t.Errorf("the next request is %+v", q)
	}
	c.applyOrders(q, ordersAnswer{Alive: true})
	<-h.gone
}
