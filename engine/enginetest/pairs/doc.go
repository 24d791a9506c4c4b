// Package pairs runs the scenarios of several nodes of package enginetest on every pair of a store that nodes
// can share and a coordination. Each pair is a factory of a cluster's members, and a test.
package pairs
