package report

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// plantedCheats are so many terminals for each signal, spread over the fleet.
func plantedCheats(each int) map[string]string {
	cheats := map[string]string{}
	for i, signal := range []string{ManualEntry, UnsoldCheck, PaidOrStolen, CheckedElsewhere, MiddleMissing, OddHours, Cancelled} {
		for n := range each {
			cheats[fmt.Sprintf("t-%04d", 10+70*n+10*i)] = signal
		}
	}
	return cheats
}

// TestSignalsFindPlantedCheatsAndFewOthers prints, over fleets with planted cheats and one
// without, how many of the cheats are found and how many of the others are named.
func TestSignalsFindPlantedCheatsAndFewOthers(t *testing.T) {
	found, planted, false1, honest := map[string]int{}, map[string]int{}, map[string]int{}, 0
	for seed := range uint64(2) {
		cheats := plantedCheats(3)
		if seed == 0 {
			cheats = nil
		}
		f := makeFleet(fleetPlan{seed: seed, claims: 16, cheats: cheats, varied: true})
		s := newStore(t)
		f.fill(t, s)
		named := map[string][]string{}
		r := make1(t, s, "signals", Filter{})
		for _, row := range r.Rows {
			terminal, signal := cell(t, r, row, "terminal").Text, cell(t, r, row, "signal").Text
			named[signal] = append(named[signal], terminal)
		}
		for terminal, signal := range cheats {
			planted[signal]++
			if slices.Contains(named[signal], terminal) {
				found[signal]++
			}
		}
		for signal, list := range named {
			for _, terminal := range list {
				if cheats[terminal] != signal {
					false1[signal]++
				}
			}
		}
		honest += fleetTerminals - len(cheats)
	}
	for _, signal := range []string{ManualEntry, UnsoldCheck, PaidOrStolen, CheckedElsewhere, MiddleMissing, OddHours, Cancelled, BlockOverpaid} {
		t.Logf("%-17s found %d of %d, named wrongly %d of %d", signal, found[signal], planted[signal], false1[signal], honest)
		if found[signal] < planted[signal] {
			t.Errorf("%s: %d of %d found", signal, found[signal], planted[signal])
		}
		if false1[signal] > honest/200 {
			t.Errorf("%s: %d of %d named wrongly", signal, false1[signal], honest)
		}
	}
}

// TestBlockThatPaysMoreThanItsTableIsNamed: at once, and a demonstration never.
func TestBlockThatPaysMoreThanItsTableIsNamed(t *testing.T) {
	s := newStore(t)
	s.add("shop-0001", "enrolled", at(0))
	for _, b := range []byte{1, 2, 3} {
		s.block(b, 1, "bingo", "1", "EUR", int(b), int(b)/3)
		raw := id(b)
		s.exec("INSERT INTO block_tiers(block_id, tier, tickets, amount_minor) VALUES($1, 1, 4, 10000)", raw[:])
		for range 5 - int(b)%2 { // 4 prizes are in the table
			s.claim(b, "shop-0001", at(0), "EUR", 10000)
		}
	}
	for range 9 {
		s.claim(3, "shop-0001", at(0), "EUR", 10000)
	}
	one := id(1)
	s.exec("INSERT INTO packs(block_id, pack, game_code, state, owner, epoch, changed) SELECT $1, pack, '', 'active', 'shop-0001', 1, '' FROM claims", one[:])
	r := make1(t, s, "signals", Filter{})
	var got []string
	for _, row := range r.Rows {
		got = append(got, fmt.Sprint(cell(t, r, row, "signal").Text, " ", cell(t, r, row, "block").Int, " ", cell(t, r, row, "observed").Int, " ", cell(t, r, row, "of").Int, " ", cell(t, r, row, "score").Int))
	}
	// Block 2 paid 5 of 4; block 1 paid its 4, which so many packs on sale explain.
	if want := []string{"block-overpaid 2 5 4 300000"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestScoresAreTheExactTails against sums that a person can check.
func TestScoresAreTheExactTails(t *testing.T) {
	for _, x := range []struct {
		name      string
		got, want float64
	}{
		{"three heads of three", binomialScore(3, 3, 0.5), -math.Log10(1.0 / 8)},
		{"two or three of three", binomialScore(2, 3, 0.5), -math.Log10(4.0 / 8)},
		{"as many as expected", binomialScore(5, 10, 0.5), 0},
		{"none", binomialScore(0, 10, 0.5), 0},
		{"what cannot be", binomialScore(1, 10, 0), maxScore},
		{"nine or ten of ten", binomialScore(9, 10, 0.1), -math.Log10(9.1e-9)}, // 10 * 0.9 * 1e-9 + 1e-10
		{"one or more, of 0.1", poissonScore(1, 0.1), -math.Log10(1 - math.Exp(-0.1))},
		{"two or more, of 1", poissonScore(2, 1), -math.Log10(1 - 2*math.Exp(-1))},
		{"as many as expected", poissonScore(3, 3), 0},
		{"far out", poissonScore(10_000, 1), maxScore},
	} {
		if math.Abs(x.got-x.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", x.name, x.got, x.want)
		}
	}
	// Benjamini and Hochberg: of 100 tries, the best must reach 1e-4, two together 2e-4 each.
	if got := least([]float64{3.9}, 100); !math.IsInf(got, 1) {
		t.Errorf("one of 3.9 is shown from %v on", got)
	}
	if got := least([]float64{3.75, 3.9, 1}, 100); got != 3.75 {
		t.Errorf("two of 3.75 and 3.9 are shown from %v on", got)
	}
}
