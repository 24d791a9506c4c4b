package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/internal/place"
	"github.com/taskengine/taskengine/internal/suggest"
	records "github.com/taskengine/taskengine/kafka/source"
)

// Source reads topics of Apache Kafka, of which each record becomes a task, or polls platforms by slices of time.
type Source struct {
	Connection string
	records.Definition
	Slices *Slices // nil for a source of records
}

// mostTopics is how many topics a source can name. A pattern can select more.
const mostTopics = 1000

var sourcesTable = table[Source]{of: "sources", keys: records.CheckName, likely: "NAME", is: sourceTable, fresh: freshSource}

func freshSource(_ *decoder, name string) Source {
	return Source{Connection: usualConnection, Definition: records.Definition{Name: name, Group: "taskengine-" + name, Payload: records.DefaultPayload}}
}

// The words of starts that are no times.
var startWords = []string{records.Start{}.String(), records.Latest().String()}

const (
	aPlaceInRecord = "a place in a record, such as value.id"
	placesInRecord = "`key`, `value`, `value.NAME` for a member of a JSON value, `headers.NAME`, `topic`, `partition`, `offset` or `timestamp`"
)

var sourceTable = &object{what: "a source", rivals: [][]string{{"kafka", "slices"}, {"type", "type_from"}}, fields: []field{
	{name: "kafka", doc: "The topics of Apache Kafka that are read. Write this or `slices`.", otherwise: "none", is: topicsTable, at: in(func(s *Source) *Source { return s })},
	{name: "slices", doc: "The platforms that are polled by slices of time. Each slice becomes a task. Write this or `kafka`.", otherwise: "none", is: slicesTable, at: sliced},
	{name: "type", doc: "The type of the tasks. Write this or `type_from`, which slices do not have.", otherwise: "none", is: words("the name of a type", notEmpty), at: in(func(s *Source) *string { return &s.Type })},
	{name: "type_from", doc: "The place in a record that has the type of its task: " + placesInRecord + ". A record without a value there becomes a task in the state `error`.", otherwise: "none", is: words("a place in a record, such as value.type", place.CheckRecord), at: in(func(s *Source) *string { return &s.TypeFrom })},
	{name: "key", doc: "The place in a record that has the unique key of its task: see [Unique keys](#unique-keys). A record without a value there becomes a task without a key.", otherwise: "tasks have no key", is: words(aPlaceInRecord, place.CheckRecord), at: in(func(s *Source) *string { return &s.Key })},
	{name: "ordering_key", doc: "The place in a record that has the ordering key of its task, such as `key`. Tasks with the same ordering key run one at a time, in the order of their records. A record without a value there becomes a task without an ordering key.", otherwise: "tasks have no ordering key", is: words("a place in a record, such as key", place.CheckRecord), at: in(func(s *Source) *string { return &s.OrderingKey })},
	{name: "payload", doc: "The place in a record that has the payload of its task. A member of a JSON value that is text becomes the text, and another one the JSON as it is written. A record without a value there becomes a task with an empty payload.", def: records.DefaultPayload, is: words("a place in a record, such as value.event", place.CheckRecord), at: in(func(s *Source) *string { return &s.Payload })},
	{name: "headers", doc: "Headers of the tasks, with their places in the records. A task has the headers `kafka-topic`, `kafka-partition`, `kafka-offset` and `kafka-timestamp`, and if its record has them `traceparent` and `tracestate` as well.", is: table[string]{of: "places", keys: records.CheckHeader, likely: "HEADER", is: words("a place in a record, such as headers.source", place.CheckRecord)}, at: in(func(s *Source) *map[string]string { return &s.Headers })},
	{name: "filter", doc: "Places in a record, each with one or more values: a record becomes a task if it has one of the values at each of the places. An empty string stands for no value.", otherwise: "every record becomes a task", is: table[[]string]{of: "places", keys: isFilterPlace, likely: "PLACE", is: sequence[string]{is: words("string", nil), single: true, least: 1, most: 1000}}, at: in(func(s *Source) *map[string][]string { return &s.Filter })},
}}

var topicsTable = &object{what: "kafka", rivals: [][]string{{"topics", "pattern"}}, fields: []field{
	{name: "connection", doc: "The name of a connection of `kafka`.", def: usualConnection, is: words("the name of a connection", notEmpty), at: in(func(s *Source) *string { return &s.Connection })},
	{name: "topics", doc: "The names of the topics. Write this or `pattern`.", otherwise: "none", is: sequence[string]{is: words("a name of a topic", isTopic), single: true, least: 1, most: mostTopics}, at: in(func(s *Source) *[]string { return &s.Topics })},
	{name: "pattern", doc: "A regular expression that matches the whole names of the topics. Topics with names that begin with `__` belong to Kafka itself and are left out.", otherwise: "none", is: words("a regular expression, such as orders-.*", isPattern), at: in(func(s *Source) *string { return &s.Pattern })},
	{name: "start", doc: "Where reading begins in a partition that the source has not read before: at the `earliest` record that it has, behind the `latest`, or at the first record of a time or later, such as `2026-01-31T18:00:00Z`.", def: startWords[0], is: startOfSource(), at: in(func(s *Source) *records.Start { return &s.Start })},
	{name: "group", doc: "The consumer group to which the positions of the source are also committed, for programs that show lag. The source continues from the positions in the store.", otherwise: "`taskengine-` and the name of the source", is: words("the name of a consumer group", notEmpty), at: in(func(s *Source) *string { return &s.Group })},
}}

// startOfSource is where a source begins to read.
func startOfSource() value[records.Start] {
	return value[records.Start]{
		want: "earliest, latest or a time, such as 2026-01-31T18:00:00Z",
		json: document{"anyOf": []document{{"enum": startWords}, moment().json}},
		parse: func(t text) (records.Start, error) {
			start, err := records.ParseStart(t.value)
			if near := suggest.Nearest(t.value, startWords); err != nil && near != "" {
				err = fmt.Errorf("%s is neither earliest, latest nor a time; did you mean %s?", t.shown(), near)
			}
			return start, err
		},
	}
}

func isFilterPlace(s string) error {
	if place.CheckRecord(s) != nil {
		return errors.New("is not a place in a record; write " + suggest.Either([]string{"key", "value", "value.NAME", "headers.NAME", "topic", "partition", "offset", "timestamp"}))
	}
	return nil
}

func isPattern(s string) error {
	if err := notEmpty(s); err != nil {
		return err
	}
	_, err := records.ParsePattern(s)
	return err
}

// sources refuses sources that cannot be, or name connections or types that do not exist.
func (d *decoder) sources() {
	groups := make(map[[2]string]string) // the sources of records, by their connections and groups
	types := make(map[string]string)     // the sources of slices, by their types
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Sources)) {
		s := d.cfg.Sources[name]
		written := d.cfg.tree.find("sources").child(name)
		at := func(keys ...string) []string { return append([]string{"sources", name}, keys...) }
		switch hasKafka := written.child("kafka") != nil; {
		case s.Slices != nil && !hasKafka:
			d.slices(name, &s, types)
			continue
		case !hasKafka:
			d.conflict(at(), "there has to be either kafka or slices; write one of them")
			continue
		}
		topics := written.child("kafka")
		if topics.child("topics") == nil && topics.child("pattern") == nil {
			d.conflict(at("kafka"), "there have to be either topics or a pattern; write one of them")
		}
		if written.child("type") == nil && written.child("type_from") == nil {
			d.conflict(at(), "there has to be either a type or a type_from; write one of them")
		}
		for i, topic := range s.Topics {
			if topic != "" && slices.Contains(s.Topics[:i], topic) {
				d.conflict(at("kafka", "topics", fmt.Sprint(i)), fmt.Sprintf("topic %s is there twice; remove one", topic))
			}
		}
		d.connection(s.Connection, at("kafka", "connection")...)
		d.typeOf(s.Type, at("type"))
		group := [2]string{s.Connection, s.Group}
		if other, taken := groups[group]; taken {
			d.conflict(at("kafka", "group"), fmt.Sprintf("source %s has the group %s, too; give each source its own", other, s.Group))
		}
		groups[group] = name
		if d.isWrongWithin(written.value) {
			continue // that was reported
		}
		if err := s.Check(); err != nil {
			d.conflict(at(), err.Error())
			continue
		}
		if b := d.cfg.Bus; b.Driver == KafkaBus && b.Connection == s.Connection && s.reads(b.Topic) {
			d.conflict(at("kafka"), fmt.Sprintf("topic %s has the hints of the bus, which are no tasks; leave it out, or give bus another topic", b.Topic))
		}
	}
}

// reads reports whether a valid source reads a topic.
func (s *Source) reads(topic string) bool {
	selects, err := s.Selection()
	return err == nil && selects(topic)
}

// isWrongWithin reports whether there is a problem with n or a value in it.
func (d *decoder) isWrongWithin(n *node) bool {
	return d.found.at(n.at) || slices.ContainsFunc(n.items, d.isWrongWithin) ||
		slices.ContainsFunc(n.entries, func(e entry) bool { return d.found.at(e.at) || d.isWrongWithin(e.value) })
}
