//go:build unix

package kafka_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/taskengine/taskengine/coord/kafka"
	"github.com/taskengine/taskengine/internal/kafkatest"
	connection "github.com/taskengine/taskengine/kafka"
)

// A bus reports the right that its user lacks, and comes up when the right is granted. Publish neither waits nor fails before.
func TestABusSaysWhichRightsItLacks(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 1, kafkatest.WithUsers(map[string]string{"admin": "admin-secret", "te": "te-secret"}), kafkatest.WithLines(
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:admin;User:ANONYMOUS"))
	as := func(user string) connection.Connection {
		return connection.Connection{Name: "main", Brokers: c.Brokers(), SASL: &connection.SASL{
			Mechanism: connection.Plain, User: user, Secret: func() (string, error) { return user + "-secret", nil },
		}}
	}
	client, err := as("admin").Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	at := kadm.NewClient(client)
	allow := func(rights *kadm.ACLBuilder) {
		t.Helper()
		made, err := at.CreateACLs(t.Context(), rights.ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:te"))
		if err != nil || made[0].Err != nil {
			t.Fatal(err, made)
		}
	}
	topic := newName()
	open := func() *node { return connect(t, c, topic, func(o *kafka.Options) { o.Connection = as("te") }) }
	a, b := open(), open()
	heard := b.hear(t)
	publish := func() {
		t.Helper()
		if err := a.Publish(t.Context(), hint(1, 1)); err != nil {
			t.Errorf("a hint of a bus without rights: %v", err)
		}
	}
	a.isDown(t, "the user may not read and write topic "+topic+"; allow it to, by ACLs for READ and WRITE")
	publish()
	allow(kadm.NewACLs().Topics(topic).Operations(kadm.OpDescribe))
	a.isDown(t, "the user may not create topic "+topic+"; allow it to, by an ACL for CREATE, or create the topic yourself")
	publish()
	kafkatest.CreateTopic(t, at, 4, 1, nil, topic)
	for _, n := range []*node{a, b} {
		n.isDown(t, "the user may not read and write topic "+topic)
	}
	publish()
	if a.logs.has("the bus is up") {
		t.Error("a bus that may not read was up")
	}
	allow(kadm.NewACLs().Topics(topic).Operations(kadm.OpRead))
	eventually(t, "a bus that reads and may not write", func() bool {
		publish()
		down := a.BusStatus().Down
		return down != nil && strings.Contains(down.Error(), "by ACLs for READ and WRITE") && a.logs.has("the bus is up")
	})
	allow(kadm.NewACLs().Topics(topic).Operations(kadm.OpWrite))
	a.isUp(t)
	b.isUp(t)
	a.reaches(t, hint(2, 2), heard)
}
