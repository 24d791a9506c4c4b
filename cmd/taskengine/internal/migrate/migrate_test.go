package migrate

import (
	"strings"
	"testing"

	"github.com/taskengine/taskengine/storage/postgres/schema"
)

func TestTheStateOfASchemaIsReported(t *testing.T) {
	all := schema.Migrations("work")
	newer := append(append([]schema.Migration{}, all...), schema.Migration{Version: len(all) + 1, Name: "of tomorrow"})
	newest := append(append([]schema.Migration{}, newer...), schema.Migration{Version: len(all) + 2, Name: "of the day after"})
	for name, c := range map[string]struct {
		applied []schema.Migration
		pending int
		says    string // "" if something is pending
		refused bool   // the SQL of pending migrations
	}{
		"empty":               {nil, len(all), "", false},
		"of an older program": {all[:1], len(all) - 1, "", false},
		"of this program":     {all, 0, "up to date", false},
		"of the next program": {newer, 0, "a newer program has brought the schema work", false},
		"of one after that":   {newest, 0, "a newer program has brought the schema work", true},
	} {
		s := stateOf("work", c.applied)
		if len(s.Pending) != c.pending || len(s.All()) != len(c.applied)+c.pending {
			t.Errorf("%s: %d are pending of %d, want %d", name, len(s.Pending), len(s.All()), c.pending)
		}
		if got := s.UpToDate(); c.says != "" && !strings.Contains(got, c.says) {
			t.Errorf("%s: it is described as %q", name, got)
		}
		if sql, err := s.Script(); (err != nil) != c.refused || err == nil && (sql == "") != (c.pending == 0) {
			t.Errorf("%s: the SQL is %.40q, %v", name, sql, err)
		}
	}
	if sql, err := stateOf("work", nil).Script(); err != nil || sql != ScriptForNew("work") {
		t.Errorf("the SQL for an empty schema is another one: %v", err)
	}
}
