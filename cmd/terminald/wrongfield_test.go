package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/device/control"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
)

// TestRosterRepeatsNothingThatMayBeAPIN: a hand that is in a hurry types the PIN where the
// name belongs, and answers are shown, logged by scripts and read out by phone.
func TestRosterRepeatsNothingThatMayBeAPIN(t *testing.T) {
	const pin = "482913"
	staff, err := people.Open(t.Context(), people.Options{Path: filepath.Join(t.TempDir(), "people.db"), Terminal: "T-1",
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Unix(1, 0)} }})
	if err != nil {
		t.Fatal(err)
	}
	defer staff.Close()
	for name, q := range map[string]control.OperatorChange{
		"who does it":      {Act: control.SuspendOperator, ID: "marie", By: pin, ByPIN: "denis"},
		"whose new PIN":    {Act: control.SetOperatorPIN, ID: pin, PIN: "marie", By: "denis", ByPIN: "739164"},
		"who is suspended": {Act: control.SuspendOperator, ID: pin, By: "denis", ByPIN: "739164"},
		"who is unlocked":  {Act: control.UnlockOperator, ID: pin, By: "denis", ByPIN: "739164"},
		"who gets a PIN":   {Act: control.SetOperatorPIN, ID: pin, PIN: "573920", By: "denis", ByPIN: "739164"},
		"who is added":     {Act: control.AddOperator, ID: pin, Name: "Marie", Role: "clerk", PIN: "marie", By: "denis", ByPIN: "739164"},
		"the act":          {Act: pin, ID: "marie", By: "denis", ByPIN: "739164"},
	} {
		err := deskRoster{staff, nil}.Change(context.Background(), q)
		if err == nil || strings.Contains(err.Error(), pin) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
