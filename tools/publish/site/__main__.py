"""Write the site: `make site`."""

from tools.publish.site.pages import main

main()
