//go:build unix

package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
)

// Each node draws again at the time that its draw returns. If all of them drew for each token, there would be eight draws for each.
func TestNodesThatWaitForARateTakeTurns(t *testing.T) {
	url := database(t)
	const count, nodes = 10, 8
	all := make([]coord.Rates, nodes)
	for i := range all {
		// Draws wait for each other for a part of the lease at most.
		all[i] = connect(t, url, setup{Options: postgres.Options{Lease: 30 * time.Second}})
	}
	execute(t, url, `CREATE TABLE public.draw (tokens bigint);
		CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO public.draw VALUES (new.drawn);
			RETURN null;
		END $$;
		CREATE TRIGGER note AFTER INSERT OR UPDATE ON taskengine.rate FOR EACH ROW EXECUTE FUNCTION public.note()`)
	var got atomic.Int64
	var running sync.WaitGroup
	for _, n := range all {
		running.Go(func() {
			for got.Load() < count {
				drawn, err := n.Draw(t.Context(), coord.Draw{Name: "rate", Interval: 200 * time.Millisecond, Burst: 1, Tokens: 1})
				if err != nil {
					t.Error(err)
					return
				}
				got.Add(int64(drawn[0].Tokens))
				time.Sleep(drawn[0].Next)
			}
		})
	}
	running.Wait()
	if draws := ask[int](t, url, "SELECT count(*)::int FROM public.draw"); draws > 4*count {
		t.Errorf("%d draws for %d tokens", draws, count)
	}
}
