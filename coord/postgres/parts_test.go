//go:build unix

package postgres_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

// orderedAnswer is the answer of coord_orders.
type orderedAnswer struct {
	Alive    bool
	Holdings []struct {
		Name string
		Held int
	}
	After  *string
	Ending bool
	News   bool
}

// request calls coord_orders with the fields of a request without orders.
func request(t *testing.T, url string, session task.ID, number int, fields string) (a orderedAnswer) {
	t.Helper()
	text := ask[string](t, url, orders, fmt.Sprintf(`{"session": %q, "number": %d, "known": 0, "orders": [], "names": 2, %s}`, session, number, fields))
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	if !a.Alive {
		t.Fatalf("request %d was refused", number)
	}
	return a
}

// The transaction of a large order takes long on a slow database.
func TestAHeartbeatDoesNotWaitForAnOrderOfItsSession(t *testing.T) {
	url, me := database(t), task.ID{1}
	open(t, url, me)
	commit := begin(t, url, ordering(me, 1, 1, 1))
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "SET lock_timeout = '1s'")
	var alive bool
	const renew = `SELECT (taskengine.coord_renew(jsonb_build_object('session', $1::text, 'beat', 2, 'lease', 60000, 'open', false, 'orders', 0))->>'alive')::bool`
	if err := conn.QueryRow(t.Context(), renew, me.String()).Scan(&alive); err != nil || !alive {
		t.Errorf("while an order is under way the session is alive: %v, %v", alive, err)
	}
	commit()
	if n := heldOf(t, url, me); n != 1 {
		t.Errorf("the order got %d permits", n)
	}
}

func TestASessionThatEndsDuringAnOrderGivesBackThatToo(t *testing.T) {
	url, me := database(t), task.ID{1}
	open(t, url, me)
	commit := begin(t, url, ordering(me, 1, 1, 1))
	execute(t, url, "SET lock_timeout = '1s'; UPDATE taskengine.session SET expires_at = '-infinity'; SELECT taskengine.coord_reap()")
	commit()
	execute(t, url, "SELECT taskengine.coord_reap()")
	if n := ask[int](t, url, "SELECT (SELECT count(*) FROM taskengine.permit) + (SELECT count(*) FROM taskengine.session) + (SELECT count(*) FROM taskengine.ordering)"); n != 0 {
		t.Errorf("the session has left %d rows", n)
	}
}

func TestAllThatASessionHasIsAnsweredInParts(t *testing.T) {
	url, me := database(t), task.ID{1}
	open(t, url, me)
	ask[string](t, url, orders, orderMany(t, me, 1, 0, 5))
	got := map[string]int{}
	after, number := "", 2
	for ; number < 9; number++ {
		a := request(t, url, me, number, fmt.Sprintf(`"all": true, "after": %q`, after))
		if len(a.Holdings) > 2 {
			t.Errorf("a part has %d names", len(a.Holdings))
		}
		for _, h := range a.Holdings {
			got[h.Name] += h.Held
		}
		if a.After == nil {
			break
		}
		after = *a.After
	}
	if len(got) != 5 || got["limit 0"] != 1 || got["limit 4"] != 1 || number != 4 {
		t.Errorf("after %d requests the answers say %v", number-1, got)
	}
}

func TestAHolderOfManyLimitsGivesThemBackInParts(t *testing.T) {
	url, me, other := database(t), task.ID{1}, task.ID{2}
	open(t, url, me)
	open(t, url, other)
	ask[string](t, url, orders, orderMany(t, me, 1, 0, 5))
	ask[string](t, url, orders, orderMany(t, other, 1, 0, 5))
	for number, ends := 2, fmt.Sprintf(`"all": false, "ended": [%q]`, me); ; number++ {
		a := request(t, url, me, number, ends)
		if n := heldOf(t, url, me); n != max(0, 5-2*(number-1)) || a.Ending != (n > 0) {
			t.Fatalf("after request %d the holder has %d permits, and the answer says that it has some: %v", number, n, a.Ending)
		}
		if !a.Ending {
			break
		}
	}
	got := 0
	for number := 2; ; number++ {
		a := request(t, url, other, number, `"all": false`)
		if got += len(a.Holdings); len(a.Holdings) > 2 {
			t.Errorf("a part of the news has %d names", len(a.Holdings))
		}
		if !a.News {
			break
		}
	}
	if n := heldOf(t, url, other); n != 5 || got != 5 {
		t.Errorf("the other holder got %d permits and the news of %d", n, got)
	}
}
