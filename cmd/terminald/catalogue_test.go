package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/configs"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/game"
	"grattoir/validate/ticket"
)

// TestGameOfCentralsCatalogueIsKnownToAnOlderProgram: its tickets are of a block that is not
// here, and no longer of a game that nobody knows.
func TestGameOfCentralsCatalogueIsKnownToAnOlderProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 8)
		defer w.close()
		w.enrol("T-1", 1, 4)
		code, err := ticket.Make(ticket.G40(), "00777", 1, 1, strings.Repeat("7", 22))
		w.must(err)
		wants := func(want validate.Reason) {
			t.Helper()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if v := w.tills[0].Check(w.ctx, terminal.Scan{Text: code.Digits(), Entered: validate.Scanned}); v.Verdict.Reason != want {
				t.Errorf("%s, want %s", v.Verdict.Reason, want)
			}
		}
		wants(validate.GameUnknown)
		games, err := configs.Games()
		w.must(err)
		number, gameCode := "9", "777"
		games[0].Emissions = append(games[0].Emissions, game.Emission{Number: &number, GameCode: &gameCode})
		text, err := configs.EncodeCatalogue(games)
		w.must(err)
		_, err = w.central.PublishCatalogue(w.ctx, text, len(games), "anne")
		w.must(err)
		wants(validate.BlockNotHere)
		w.tills[0].stop(w)
		w.net.down(time.Hour)
		w.tills[0].start(w)
		wants(validate.BlockNotHere)
	})
}
