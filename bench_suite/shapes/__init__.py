"""What production runs: request lengths -> scheduler simulation -> weighted shapes -> representatives.

No torch here. The way through the files: `traces` (lengths), `models` (sizes), `chips` and `cost` (a roofline clock),
`schedule` (the batching simulation), `derive` (steps to weighted shapes), `representatives` (few shapes for many),
`listing` (the text file a suite is written from).
"""
