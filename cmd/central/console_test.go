package main

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"grattoir/sync/central"
	"grattoir/sync/ledger/people"
)

func TestConsoleShowsTheOpenCentral(t *testing.T) {
	c, err := central.Open(t.Context(), central.Options{Dir: t.TempDir(), PasswordCost: people.Cost{Memory: 8, Passes: 1, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.AddTerminal(t.Context(), "shop-0042"); err != nil {
		t.Fatal(err)
	}
	p, err := central.NewPassword("correct horse battery")
	if err == nil {
		err = c.AddUser(t.Context(), "root", "claire", central.RoleViewer, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := c.SignIn(t.Context(), "claire", p, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost:8088/fleet", nil)
	r.AddCookie(&http.Cookie{Name: "grattoir-session", Value: token})
	w := httptest.NewRecorder()
	consoleHandler(c, false).ServeHTTP(w, r)
	if w.Code != 200 || !strings.Contains(w.Body.String(), "shop-0042") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
