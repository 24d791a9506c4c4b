// Package recipes has one small web service in four languages. Each service charges orders by tasks of a node: see
// README.md. The tests kill the services and the node while orders arrive.
package recipes
