package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/task"
)

// witness is a handler that notes when it begins, that it still runs, and when it ends.
type witness struct{ journal *os.File }

func newWitness(path string) (witness, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return witness{f}, err
}

// handle runs for the time that the payload says, or until it is stopped.
func (w witness) handle(ctx context.Context, t *task.Task) ([]byte, error) {
	var p struct {
		Partner string
		Millis  int
	}
	if err := json.Unmarshal(t.Payload, &p); err != nil {
		return nil, err
	}
	who := fmt.Sprintf("%s %s %d %s %s", os.Getenv("NODE"), t.ID, t.Version, t.Type, p.Partner)
	beat, end := time.NewTicker(20*time.Millisecond), time.After(time.Duration(p.Millis)*time.Millisecond)
	defer beat.Stop()
	for kind := "begin"; ; kind = "runs" {
		if err := w.note(kind, who); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, cmp.Or(w.note("stopped", who), ctx.Err())
		case <-end:
			return nil, w.note("end", who)
		case <-beat.C:
		}
	}
}

// note adds a line to the journal by one write, which either happens or does not.
func (w witness) note(kind, who string) error {
	_, err := fmt.Fprintf(w.journal, "%d %s %s\n", time.Now().UnixMicro(), kind, who)
	return err
}

// readAttempts reads the notes of handlers.
func readAttempts(t *testing.T, journal string) []attempt {
	t.Helper()
	f, err := os.Open(journal)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []attempt
	index := make(map[string]int)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var at int64
		var kind string
		var a attempt
		if _, err := fmt.Sscan(lines.Text(), &at, &kind, &a.node, &a.task, &a.version, &a.typ, &a.partner); err != nil {
			t.Fatalf("the line %q: %v", lines.Text(), err)
		}
		_, who, _ := strings.Cut(lines.Text(), kind)
		i, ok := index[who]
		if kind == "begin" || !ok {
			i = len(all)
			a.begin = at
			all, index[who] = append(all, a), i
		}
		all[i].last = at
	}
	return all
}

// auditSQL has a database record every change of permits, rates, members and sessions.
const auditSQL = `
create table public.audit (
	id bigserial primary key, at bigint not null default (extract(epoch from clock_timestamp()) * 1000000)::bigint,
	kind text not null, name text, session uuid, holder uuid, n bigint);
create function public.audit_permit() returns trigger language plpgsql as $$ begin
	if tg_op = 'DELETE' then
		insert into public.audit (kind, name, session, holder, n) values ('permit', old.name, old.session, old.holder, 0);
	else
		insert into public.audit (kind, name, session, holder, n) values ('permit', new.name, new.session, new.holder, new.held);
	end if;
	return null;
end $$;
create trigger audit after insert or update or delete on taskengine.permit for each row execute function public.audit_permit();
create function public.audit_semaphore() returns trigger language plpgsql as $$ begin
	insert into public.audit (kind, name, n) values ('most', new.name, new.most);
	return null;
end $$;
create trigger audit after insert or update on taskengine.semaphore for each row execute function public.audit_semaphore();
create function public.audit_member() returns trigger language plpgsql as $$ begin
	insert into public.audit (kind, name, session) values ('member', new.name, new.session);
	return null;
end $$;
create trigger audit after insert or update on taskengine.member for each row execute function public.audit_member();
create function public.audit_session() returns trigger language plpgsql as $$ begin
	insert into public.audit (kind, session) values ('death', old.id);
	return null;
end $$;
create trigger audit after delete on taskengine.session for each row execute function public.audit_session();
create function public.audit_rate() returns trigger language plpgsql as $$ begin
	insert into public.audit (at, kind, name, n) values (new.at / 1000, 'rate', new.name, new.drawn);
	return null;
end $$;
create trigger audit after insert or update on taskengine.rate for each row execute function public.audit_rate();`

// readAudit adds the records of the database to a history.
func (h *history) readAudit(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	rows, _ := c.Query(ctx, `select at, kind, coalesce(name, ''), coalesce(session::text, ''), coalesce(holder::text, ''), coalesce(n, 0)
		from public.audit order by id`)
	nodes, most := make(map[string]string), make(map[string]int) // by session; by limit
	dead := make(map[string]int64)                               // by session
	var sessions []string                                        // of changes
	var at int64
	var kind, name, session, holder string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&at, &kind, &name, &session, &holder, &n}, func() error {
		switch kind {
		case "permit":
			h.changes = append(h.changes, change{at: at, limit: name, holder: holder, held: n, most: most[name]})
			sessions = append(sessions, session)
		case "most":
			most[name] = n
		case "member":
			nodes[session] = name
		case "death":
			dead[session] = at
		case "rate":
			h.draws = append(h.draws, draw{at, n})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.deaths = make(map[string]int64)
	for i := range h.changes {
		if at, ok := dead[sessions[i]]; ok {
			h.deaths[h.changes[i].holder] = at
		}
		h.changes[i].node = nodes[sessions[i]] // a node that is not a member yet may order permits, but starts nothing
	}
	slices.SortStableFunc(h.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	slices.SortStableFunc(h.draws, func(a, b draw) int { return cmp.Compare(a.at, b.at) })
}
