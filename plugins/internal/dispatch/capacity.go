package dispatch

import (
	"slices"

	"github.com/taskengine/taskengine/task"
)

// Users are notified of the capacity of a host. The host's mutex guards all fields. The zero value has
// none.
type Users struct{ all []*User }

// User is notified of the capacity of a host.
type User struct {
	changed func(task.Capacity)
	last    task.Capacity // the last one that changed was called with
}

// Add adds a user and notifies it of the present capacity.
func (u *Users) Add(changed func(task.Capacity), now task.Capacity) *User {
	user := &User{changed: changed, last: now}
	u.all = append(u.all, user)
	changed(now)
	return user
}

// Remove removes a user.
func (u *Users) Remove(user *User) {
	u.all = slices.DeleteFunc(u.all, func(o *User) bool { return o == user })
}

// Notify calls the users with the capacity if it has changed. It is called after every change that may
// affect it.
func (u *Users) Notify(capacity func() task.Capacity) {
	if len(u.all) == 0 {
		return
	}
	c := capacity()
	for _, user := range u.all {
		if user.last != c {
			user.last = c
			user.changed(c)
		}
	}
}
