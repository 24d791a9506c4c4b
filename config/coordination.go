package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/policy"
)

var coordinationTable = &object{fields: []field{
	{name: "driver", doc: "`local` is for a single node, and `postgres` for nodes that share a database. `etcd` and `zookeeper` are for nodes that share a database, and for nodes with a store each: these share limits, schedules and the changes that operators make while they run, and no tasks. With the storage `memory` the driver has no effect.", otherwise: "`postgres` with that storage, else `local`", is: oneOf(nil, option[string]{"local", Local}, option[string]{"postgres", Database}, option[string]{"etcd", Etcd}, option[string]{"zookeeper", ZooKeeper}), at: in(func(c *Coordination) *string { return &c.Driver })},
	{name: "endpoints", doc: "The servers of `etcd` or `zookeeper`, for which it is required. A node uses another one when one fails.", otherwise: "none", is: sequence[string]{is: endpoint("etcd1.example.com:2379", "coordination.tls"), single: true, least: 1, most: 100}, at: in(func(c *Coordination) *[]string { return &c.Endpoints })},
	{name: "prefix", doc: "The beginning of all keys in `etcd` and of the paths in `zookeeper`. Clusters with different prefixes can share the servers.", def: "taskengine", holds: func(c *Config) bool { return c.Coordination.IsExternal() }, is: prefix(), at: in(func(c *Coordination) *string { return &c.Prefix })},
	{name: "lease", doc: "How long other nodes consider a node alive after its last heartbeat. A node sends a heartbeat every third of this time, and every sixth to `zookeeper`. After the death of a node its tasks run elsewhere within two leases. `etcd` rounds it up to seconds, and `zookeeper` brings it into the range that its servers allow: the node logs the lease that it really has. Not for `local`.", def: "4s", is: lease(), at: in(func(c *Coordination) *time.Duration { return &c.Lease })},
	{name: "user", doc: "The user of `etcd` or `zookeeper`. Only this user can use the entries that the nodes create in `zookeeper`.", otherwise: "none", is: words("the name of a user", notEmpty), at: in(func(c *Coordination) *string { return &c.User })},
	{name: "password", doc: "The password of `user`. Write a reference.", otherwise: "none", is: guarded{secret("a password", notEmpty), masked}, at: in(func(c *Coordination) *Text { return &c.Password })},
	{name: "auth", doc: "How `user` proves itself to `zookeeper`: `digest` sends the password as it is, for the scheme of this name; `sasl` uses SASL with DIGEST-MD5, for users that the servers know.", otherwise: "`digest`", is: oneOf(nil, option[string]{"digest", Digest}, option[string]{"sasl", SASL}), at: in(func(c *Coordination) *string { return &c.Auth })},
	{name: "tls", doc: "Encrypts the connections with `etcd` or `zookeeper`.", is: tlsTable, at: in(func(c *Coordination) *TLS { return &c.TLS })},
	{name: "roles", doc: "`guid` elects the nodes that have roles, such as the one that removes old tasks, by messages over the bus, and not by the driver. Only with the storage `postgres`, and not with `bus.listen: none` unless the bus is `kafka`.", otherwise: "elected by the driver", is: oneOf(nil, option[string]{"guid", GUID}), at: in(func(c *Coordination) *string { return &c.Roles })},
	{name: "labels", doc: "Further attributes of the node. Types choose their nodes by them, see `nodes` of a type. No label can be called `name`: there that is the name of the node.", otherwise: "none", is: table[string]{of: "labels", keys: isLabel, likely: "LABEL", is: words("string", notEmpty)}, at: in(func(c *Coordination) *map[string]string { return &c.Labels })},
}}

var tlsTable = &object{what: "tls", fields: []field{
	{name: "ca", doc: "A file with the certificates of the authorities that sign the servers' certificates, in PEM, or `system` for the authorities that the system trusts.", required: true, is: words("a file, or system", notEmpty), at: in(func(t *TLS) *string { return &t.CA })},
	{name: "cert", doc: "A file with the certificate of the node, in PEM. The node reads it again for each connection, so it can be replaced while the node runs.", otherwise: "none", is: words("a file", notEmpty), at: in(func(t *TLS) *string { return &t.Cert })},
	{name: "key", doc: "A file with the key of `cert`, in PEM.", otherwise: "none", is: words("a file", notEmpty), at: in(func(t *TLS) *string { return &t.Key })},
	{name: "server_name", doc: "The name that the certificates of the servers must have.", otherwise: "the host of the endpoint", is: words("the name of a host", notEmpty), at: in(func(t *TLS) *string { return &t.ServerName })},
}}

var busTable = &object{fields: []field{
	{name: "driver", doc: "`local` is for a single node. `postgres` and `kafka` are for nodes that share a database: `kafka` uses a topic, and the database if no broker can be used, see [Kafka](kafka.md#hints-between-nodes).", otherwise: "`postgres` with that storage, else `local`", is: oneOf(nil, option[string]{"local", Local}, option[string]{"postgres", Database}, option[string]{"kafka", KafkaBus}), at: in(func(b *Bus) *string { return &b.Driver })},
	{name: "listen", doc: "Not for `local`: a URL of the same database for LISTEN, which a pool of connections such as PgBouncer does not support, or `none`. With `kafka` the database still notifies nodes of tasks that SQL adds, and of changes of settings.", otherwise: "`storage.url`", is: databaseURL{or: "none"}, at: in(func(b *Bus) *Text { return &b.Listen })},
	{name: "connection", doc: "Only for `kafka`: the name of a connection of `kafka`.", def: usualConnection, holds: usesKafka, is: words("the name of a connection", notEmpty), at: in(func(b *Bus) *string { return &b.Connection })},
	{name: "topic", doc: "Only for `kafka`: the topic. Several clusters can share it.", def: "taskengine-hints", holds: usesKafka, is: words("the name of a topic", isTopic), at: in(func(b *Bus) *string { return &b.Topic })},
	{name: "create_topics", doc: "Only for `kafka`: whether nodes create the topic if it is missing. Its records are kept for ten minutes.", def: "false", holds: usesKafka, is: boolean(), at: in(func(b *Bus) *bool { return &b.CreateTopics })},
	{name: "partitions", doc: "Only for `kafka`: the number of partitions of a topic that a node creates. A node reads the partitions of its shards: with more partitions than nodes each node reads fewer records. There are 256 shards.", def: "16", holds: usesKafka, is: whole[int](1, 256, "a number"), at: in(func(b *Bus) *int { return &b.Partitions })},
}}

func usesKafka(c *Config) bool { return c.Bus.Driver == KafkaBus }

// isLabel accepts valid names of labels.
func isLabel(s string) error {
	if s == policy.NodeName {
		return errors.New("is reserved for the name of the node, which node.name sets; write another label, or remove it")
	}
	return notEmpty(s)
}

// endpoint is the address of a server. encryption is the key that encrypts connections with it.
func endpoint(example, encryption string) value[string] {
	return value[string]{want: "a server, such as " + example, json: orReference(document{"type": "string"}), parse: func(t text) (string, error) {
		if scheme, rest, ok := strings.Cut(t.value, "://"); ok {
			return "", fmt.Errorf("%.60q begins with %s://; write host:port, such as %s, and %s for encrypted connections", t.value, scheme, strings.Trim(rest, "/"), encryption)
		}
		host, port, err := net.SplitHostPort(t.value)
		if err != nil {
			return "", fmt.Errorf("%.60q is not an address; write host:port, such as %s", t.value, example)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("the port %.20q is not a number of 1 to 65535", port)
		}
		if host == "" || strings.ContainsAny(host, " /@,") {
			return "", fmt.Errorf("%.60q is not the name of a host", host)
		}
		return t.value, nil
	}}
}

var prefixParts = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// prefix is the prefix of keys, without a slash at either end.
func prefix() value[string] {
	return value[string]{want: "a prefix, such as taskengine", json: orReference(document{"type": "string"}), parse: func(t text) (string, error) {
		s, err := literal(t)
		if err != nil {
			return "", err
		}
		s = strings.TrimSuffix(strings.TrimPrefix(s, "/"), "/")
		if !prefixParts.MatchString(s) || len(s) > 200 {
			return "", fmt.Errorf("%.40q cannot be the beginning of keys; write names of letters, digits, - and _, with slashes between them, such as prod/taskengine", t.value)
		}
		return s, nil
	}}
}

// coordination refuses drivers of coordination and bus that do not fit the storage, and keys that do
// not fit the driver.
func (d *decoder) coordination() {
	d.kafkaBus()
	if d.cfg.Storage.Driver == Memory {
		return
	}
	own := Local
	if d.cfg.Storage.Driver == Postgres {
		own = Database
	}
	c, written := &d.cfg.Coordination, d.cfg.tree.find("coordination")
	for key, driver := range map[string]string{"coordination": c.Driver, "bus": d.cfg.Bus.Driver} {
		if driver != "" && driver != own && driver != KafkaBus && (key == "bus" || !c.IsExternal()) {
			d.conflict([]string{key, "driver"}, "does not go with storage.driver; remove it, or write driver: "+own)
		}
	}
	if c.Roles == GUID && own == Local {
		d.conflict([]string{"coordination", "roles"}, "needs nodes that share a bus, as nodes with storage.driver: postgres do; remove it")
	}
	if c.Roles == GUID && d.cfg.Bus.Listen.Reveal() == "none" && !usesKafka(d.cfg) {
		d.conflict([]string{"coordination", "roles"}, "needs messages between nodes, and bus.listen is none; remove one of them")
	}
	if !c.IsExternal() {
		for _, key := range []string{"endpoints", "prefix", "user", "password", "auth", "tls"} {
			if written.child(key) != nil && !d.found.at(d.cfg.tree.locate([]string{"coordination", "driver"})) {
				d.conflict([]string{"coordination", key}, "belongs to the drivers etcd and zookeeper; remove it, or write driver: etcd")
			}
		}
		return
	}
	c.misfits(written.child("endpoints") != nil, func(key, text string) { d.conflict([]string{"coordination", key}, text) })
}

// kafkaBus refuses a bus by Kafka for nodes that have no tasks in common, and its keys without it.
func (d *decoder) kafkaBus() {
	written, b := d.cfg.tree.find("bus"), d.cfg.Bus
	if !usesKafka(d.cfg) {
		for _, key := range []string{"connection", "topic", "create_topics", "partitions"} {
			if written.child(key) != nil && !d.found.at(d.cfg.tree.locate([]string{"bus", "driver"})) {
				d.conflict([]string{"bus", key}, "belongs to the driver kafka; remove it, or write driver: kafka")
			}
		}
		return
	}
	if d.cfg.Storage.Driver != Postgres {
		d.conflict([]string{"bus", "driver"}, "is kafka, which carries hints between nodes that share a database; this node has a store of its own and needs no hints; remove it")
		return
	}
	d.connection(b.Connection, "bus", "connection")
}

// misfits calls found with each key that does not fit the driver etcd or zookeeper, and with the remedy.
func (c *Coordination) misfits(hasEndpoints bool, found func(key, text string)) {
	if !hasEndpoints {
		found("driver", fmt.Sprintf("%s needs coordination.endpoints, such as [%[1]s1.example.com:%s]", c.Driver, defaultPort(c.Driver)))
	}
	if c.User != "" && c.Password.Reveal() == "" {
		found("user", "needs coordination.password")
	}
	if c.User == "" && c.Password.Reveal() != "" {
		found("password", "needs coordination.user")
	}
	if c.Auth != "" && c.Driver != ZooKeeper {
		found("auth", "belongs to the driver zookeeper; remove it")
	} else if c.Auth == SASL && c.User == "" {
		found("auth", "needs coordination.user")
	}
	if c.TLS.Cert != "" && c.TLS.Key == "" {
		found("tls", "has a certificate without its key; add key")
	}
	if c.TLS.Cert == "" && c.TLS.Key != "" {
		found("tls", "has a key without its certificate; add cert")
	}
	if c.Driver == Etcd && c.Lease < time.Second {
		found("lease", "must be 1s or more: leases of etcd are whole seconds")
	}
	if first, _, _ := strings.Cut(c.Prefix, "/"); c.Driver == ZooKeeper && first == "zookeeper" {
		found("prefix", "is the path that ZooKeeper keeps for itself; write another one")
	}
	if c.Driver == ZooKeeper && strings.Contains(c.User, ":") {
		found("user", "has a colon, which ends the name of a user in ZooKeeper; write another name")
	}
}

func defaultPort(driver string) string {
	if driver == ZooKeeper {
		return "2181"
	}
	return "2379"
}

// files returns the paths of files.
func (t *TLS) files() []*string {
	if t.CA == SystemCA {
		return []*string{&t.Cert, &t.Key}
	}
	return []*string{&t.CA, &t.Cert, &t.Key}
}

// named returns the paths of files by their keys; "" is none.
func (t *TLS) named() map[string]string {
	files := map[string]string{"ca": t.CA, "cert": t.Cert, "key": t.Key}
	if t.CA == SystemCA {
		delete(files, "ca")
	}
	return files
}
