package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"grattoir/configs"
	"grattoir/validate/game/rules"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/ticket"
)

// symbolTickets is how many tickets the symbols are measured on.
const symbolTickets = 500_000

// symbols draws the symbols of a block and checks them when it is sealed, for each game
// that has them, beside the same block without symbols.
func (b *bench) symbols(ctx context.Context, work string) error {
	for _, id := range []string{"bingo", "crossingo"} {
		order, tiers, maker, err := b.symbolOrder(id)
		if err != nil {
			return err
		}
		sample := func(r rules.Maker, tickets, symbols io.Writer) (time.Duration, error) {
			s := seal.Sample{Layout: ticket.G40(), GameCode: "399", Tickets: symbolTickets, FirstPack: 1, PackSize: 60, Tiers: tiers, Rules: r, Symbols: symbols}
			return timeOf(func() error { return s.Write(tickets, func(int64) {}) })
		}
		bare, err := sample(nil, io.Discard, nil)
		if err != nil {
			return err
		}
		var csv, symbols bytes.Buffer
		drawn, err := sample(maker, &csv, &symbols)
		if err != nil {
			return err
		}
		b.add(fmt.Sprintf("draw %d %s tickets with symbols", symbolTickets, id), perSecond(drawn), "without symbols "+perSecond(bare),
			fmt.Sprintf("%.1f", float64(drawn)/float64(bare)), "100000 tickets/s")
		sealOnce := func(path string, in io.Reader) (time.Duration, error) {
			order.Symbols, order.Rules = in, maker
			return timeOf(func() error {
				_, err := seal.Seal(ctx, bytes.NewReader(csv.Bytes()), order, filepath.Join(work, path))
				return err
			})
		}
		plain, err := sealOnce(id+"-plain", nil)
		if err != nil {
			return err
		}
		checked, err := sealOnce(id+"-checked", bytes.NewReader(symbols.Bytes()))
		if err != nil {
			return err
		}
		b.add(fmt.Sprintf("seal %d %s tickets, symbols checked", symbolTickets, id), perSecond(checked), "without symbols "+perSecond(plain),
			fmt.Sprintf("%.1f", float64(checked)/float64(plain)), "100000 tickets/s")
		for _, name := range []string{"-plain", "-checked"} {
			if err := os.Remove(filepath.Join(work, id+name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func perSecond(d time.Duration) string {
	return fmt.Sprintf("%.0f tickets/s", symbolTickets/d.Seconds())
}

// symbolOrder is the order for a scaled block of a game, and what draws its symbols.
func (b *bench) symbolOrder(id string) (seal.Order, []manifest.Tier, rules.Maker, error) {
	g, order, _, err := b.gameOrder(id)
	if err != nil {
		return order, nil, nil, err
	}
	rows, err := g.Tables[0].Scale(symbolTickets)
	if err != nil {
		return order, nil, nil, err
	}
	tiers := tiersOf(rows)
	order.Prizes = func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }
	name, text, err := configs.ShippedRules(id)
	if err != nil {
		return order, nil, nil, err
	}
	r, err := configs.DecodeRules(name, text, id, g.Tables[0])
	if err != nil {
		return order, nil, nil, err
	}
	maker, ok := r.(rules.Maker)
	if !ok {
		return order, nil, nil, fmt.Errorf("the symbols of %s cannot be drawn", id)
	}
	return order, tiers, maker, nil
}
