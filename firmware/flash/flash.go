// Package flash writes a signed image to a card, so that a technician can trust it. Nothing
// is written before the image's signature, block map and file were verified; only a
// removable drive that a person named by its serial is written; every byte is read back
// from the card; and a card that was interrupted does not boot.
//
// It owns the image's files (FORMAT.md), the choice of the drive, the writing, and the
// audit line. It never asks anybody and prints nothing: terminalctl flash does. Start at
// Open and Write; the drives are in System, what a card must do in Medium.
package flash
