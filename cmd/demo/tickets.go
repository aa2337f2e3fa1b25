package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"grattoir/validate/ticket"
)

// tickets are the sample's codes by prize, in cents.
type tickets struct{ byPrize map[int64][]ticket.Code }

func readTickets(path string) (*tickets, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &tickets{map[int64][]ticket.Code{}}
	scan := bufio.NewScanner(f)
	scan.Scan() // the header, which seal has checked
	for scan.Scan() {
		digits, prize, _ := strings.Cut(scan.Text(), ",")
		c, err := ticket.Parse(digits, 0, ticket.Shipped())
		if err != nil {
			return nil, err
		}
		cents, err := strconv.ParseInt(prize, 10, 64)
		if err != nil {
			return nil, err
		}
		t.byPrize[cents] = append(t.byPrize[cents], c)
	}
	return t, scan.Err()
}

// take gives a ticket with that prize which was not given before.
func (t *tickets) take(cents int64) (ticket.Code, error) {
	list := t.byPrize[cents]
	if len(list) == 0 {
		return ticket.Code{}, fmt.Errorf("no ticket with a prize of %d cents is left", cents)
	}
	t.byPrize[cents] = list[1:]
	return list[0], nil
}

// back gives a ticket back: it was shown and not paid.
func (t *tickets) back(cents int64, c ticket.Code) { t.byPrize[cents] = append(t.byPrize[cents], c) }

// misread changes one digit, as a scratched or dirty code would.
func misread(c ticket.Code) string {
	digits := []byte(c.Digits())
	digits[20] = '0' + (digits[20]-'0'+1)%10
	return string(digits)
}

// forged gives the ticket another secret, with check digits that agree.
func forged(c ticket.Code) (ticket.Code, error) {
	secret := []byte(c.Secret())
	for i := range secret {
		secret[i] = '0' + (secret[i]-'0'+7)%10
	}
	return ticket.Make(c.Layout, c.Game, c.Pack, c.Number, string(secret))
}
