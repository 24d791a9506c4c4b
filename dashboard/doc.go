// Package dashboard serves web pages about a node and its cluster: HTML that the server makes of templates, with one style sheet
// and one small script, all of them in the binary. A page asks the API in this process with the token of the person, so that rights,
// redaction and audit lines are the API's.
//
//	dashboard.go  routes, headers, and the life of a request
//	session.go    who a person is: the token or the session in a cookie
//	login.go      the log-in at an identity provider, by package oidc
//	logout.go     the end of sessions by the provider
//	seal.go       values in cookies that only nodes can read
//	inprocess.go  requests to the API without a network
//	cache.go      answers that several pages share for a moment
//	refresh.go    the answers to scripts of open pages, which several pages share
//	crowd.go      how often pages refresh themselves, if many are open
//	page.go       what a page is, and how it is shown
//	pages.go      the list of pages
//	format.go     how values are shown
//
// Each page has a file of its name with its handler, and a template of that name. To add one, write these, add it to pages.go,
// and test it as overview_test.go does.
package dashboard
