package brokers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/brokers"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/kafka/source"
)

// load returns the configuration of a file with a type t and these sections.
func load(t *testing.T, sections string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "taskengine.yaml")
	text := "handlers: {t: {exec: [cat]}}\ntypes: {t: {}}\n" + sections
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, nil, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSourcesAreDescribedWithTheirConnections(t *testing.T) {
	got := brokers.Sources(load(t, `
kafka: {main: {brokers: "k1:9092"}, other: {brokers: "k2:9092", client_id: reader}}
sources:
  b: {kafka: {topics: orders}, type: t}
  a: {kafka: {connection: other, pattern: "x.*", start: latest, group: g}, type_from: value.type, key: key, filter: {value.a: b}}
`))
	want := []source.Definition{
		{Name: "a", Pattern: "x.*", Start: source.Latest(), Group: "g", TypeFrom: "value.type", Key: "key", Payload: "value", Filter: map[string][]string{"value.a": {"b"}}},
		{Name: "b", Topics: []string{"orders"}, Group: "taskengine-b", Type: "t", Payload: "value"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d sources", len(got))
	}
	same := cmp.Comparer(func(a, b source.Start) bool { return a == b })
	for i := range want {
		if diff := cmp.Diff(want[i], got[i].Definition, same); diff != "" {
			t.Errorf("(-want +got) %s", diff)
		}
		if err := got[i].Definition.Check(); err != nil {
			t.Error(err)
		}
	}
	if c := got[0].Connection; c.Name != "other" || c.ClientID != "reader" || !slices.Equal(c.Brokers, []string{"k2:9092"}) {
		t.Errorf("the connection of a: %+v", c)
	}
}

func TestTheTopicsOfSourcesAreLookedFor(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	c := load(t, fmt.Sprintf(`
kafka: {main: {brokers: %q}, away: {brokers: "127.0.0.1:1"}}
sources:
  all: {kafka: {topics: [orders, missing, gone]}, type: t}
  one: {kafka: {topics: absent}, type: t}
  good: {kafka: {topics: orders}, type: t}
  pattern: {kafka: {pattern: "none-.*"}, type: t}
  silent: {kafka: {connection: away, topics: orders}, type: t}
  still: {kafka: {connection: away, pattern: ".*"}, type: t}
`, fake.ListenAddrs()[0]))
	found := brokers.Probe(t.Context(), c)
	want := []string{ // a connection is at fault once, whatever uses it
		"4 kafka.away.brokers: kafka.away: no broker of it answers",
		"6 sources.all.kafka.topics.1: kafka.main: there is no topic missing that the user may see; create it",
		"6 sources.all.kafka.topics.2: kafka.main: there is no topic gone that",
		"7 sources.one.kafka.topics.0: kafka.main: there is no topic absent that",
	}
	for i, p := range found {
		if got := fmt.Sprint(p.Line, " ", p.Text); i >= len(want) || !strings.HasPrefix(got, want[i]) {
			t.Errorf("it found %s", got)
		}
	}
	if len(found) != len(want) {
		t.Errorf("it found %d problems", len(found))
	}
}
